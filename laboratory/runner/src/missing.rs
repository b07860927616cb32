//! Runs that an experiment lacks: not run yet, failed, or needed to decide a claim.

use crate::cells::Runnable;
use crate::error::RunnerError;
use crate::store::Store;
use quorate_lab::experiments::{Instrument, Plan, needs};
use quorate_operator::report::Report;
use serde::Serialize;
use std::fmt::Write;

/// Reason why a run is missing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "reason", content = "why", rename_all = "kebab-case")]
pub enum Reason {
    /// Nobody has run it yet.
    Absent,
    /// It failed, for this reason. `quorate lab run` retries it.
    Failed(String),
    /// A claim is undecided without it, for this reason.
    Undecided(String),
    /// This machine or build cannot run it, for this reason.
    NotMeasurable(String),
}

impl Reason {
    fn name(&self) -> &'static str {
        match self {
            Reason::Absent => "absent",
            Reason::Failed(_) => "failed",
            Reason::Undecided(_) => "undecided",
            Reason::NotMeasurable(_) => "not-measurable",
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Reason::Absent => None,
            Reason::Failed(why) | Reason::Undecided(why) | Reason::NotMeasurable(why) => Some(why),
        }
    }
}

/// A run that is missing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Lack {
    pub instrument: Instrument,
    /// The coordinates in words.
    pub cell: String,
    pub repetition: u32,
    #[serde(flatten)]
    pub reason: Reason,
}

/// Runs that an experiment has and lacks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Missing {
    pub experiment: String,
    pub present: usize,
    #[serde(rename = "missing")]
    pub lacks: Vec<Lack>,
}

impl Missing {
    /// Looks for the runs of a plan. Claims are judged once no run is absent.
    pub(crate) fn of(name: String, store: &Store, plan: &Plan, cells: &[Runnable]) -> Result<Missing, RunnerError> {
        let lack = |cell: usize, repetition, reason| {
            let place = &plan.cells[cell];
            Lack { instrument: place.instrument, cell: place.label(), repetition, reason }
        };
        let (mut rows, mut lacks) = (Vec::new(), Vec::new());
        for (repetition, cell) in plan.turns() {
            let runnable = &cells[cell];
            let reason = match (&runnable.obstacle, store.load(&runnable.key, repetition)?) {
                (Some(why), _) => Reason::NotMeasurable(why.clone()),
                (None, None) => Reason::Absent,
                (None, Some(row)) => match (&row.failure, &row.not_measurable) {
                    (Some(why), _) => Reason::Failed(why.clone()),
                    // It was not measurable somewhere else.
                    (None, Some(_)) => Reason::Absent,
                    (None, None) => {
                        rows.push(crate::report::stamped(plan, &plan.cells[cell], row));
                        continue;
                    }
                },
            };
            lacks.push(lack(cell, repetition, reason));
        }
        // Repetitions beyond the minimum, which earlier runs added to decide claims.
        for (place, (at, runnable)) in plan.cells.iter().zip(cells.iter().enumerate()) {
            let first = plan.least_runs(at);
            for repetition in first..plan.repeat.max {
                let row = store.load(&runnable.key, repetition)?;
                let row = row.filter(|row| row.failure.is_none() && row.not_measurable.is_none());
                rows.extend(row.map(|row| crate::report::stamped(plan, place, row)));
            }
        }
        if !lacks.iter().any(|lack| lack.reason == Reason::Absent) {
            let needed = needs(plan, &rows).into_iter().filter(|need| cells[need.cell].obstacle.is_none());
            lacks.extend(needed.map(|need| lack(need.cell, need.repetition, Reason::Undecided(need.why))));
        }
        Ok(Missing { experiment: name, present: rows.len(), lacks })
    }

    fn count(&self, name: &str) -> usize {
        self.lacks.iter().filter(|lack| lack.reason.name() == name).count()
    }
}

/// The missing runs of several experiments.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Inventory<'m> {
    pub experiments: &'m [Missing],
}

impl Report for Inventory<'_> {
    fn to_table(&self) -> String {
        let mut out = String::new();
        for missing in self.experiments {
            let Missing { experiment, present, lacks } = missing;
            let counts: Vec<String> = ["absent", "failed", "undecided", "not-measurable"]
                .into_iter()
                .filter_map(|name| Some(missing.count(name)).filter(|count| *count > 0).map(|count| (count, name)))
                .map(|(count, name)| format!("{count} {name}"))
                .collect();
            let lacking = if counts.is_empty() { "complete".to_owned() } else { counts.join(", ") };
            let _ = writeln!(out, " {experiment:<24}  {present} runs present; {lacking}");
            for Lack { instrument, cell, repetition, reason } in lacks {
                let why = reason.text().map(|why| format!(": {why}")).unwrap_or_default();
                let _ = writeln!(out, "   {} {instrument}, {cell}, repetition {repetition}{why}", reason.name());
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}
