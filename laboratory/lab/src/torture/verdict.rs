//! Verdict of a torture run.

use crate::spec::Retention;
use quorate_operator::report::Report;
use serde::Serialize;
use std::fmt;

/// Verdict on all histories and replicas after the faults.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Seed of the faults and of the clients' commands.
    pub seed: u64,
    /// Requested duration of the faults, in minutes.
    pub minutes: f64,
    /// Progress of the run when a signal ended it; `None` if it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Blocks that the replicas keep for peers that were down.
    pub retention: Retention,
    pub seconds: f64,
    /// Faults, each with its time in seconds.
    pub injections: Vec<(f64, String)>,
    /// Number of commands issued by the clients.
    pub operations: u64,
    /// Commands that were never answered.
    pub unanswered: u64,
    /// Histories of single keys that were checked.
    pub keys: u64,
    /// Keys whose history is not linearizable, with that history.
    pub violations: Vec<String>,
    /// Difference between the replicas' histories or heights, if any.
    pub divergence: Option<String>,
    /// Second in which the cluster stalled, if it did.
    pub stalled_at: Option<f64>,
    /// Number of times that a replica was too far behind to fetch blocks and installed its peers' state.
    pub states_taken_over: usize,
    /// Maximum time in seconds from the return of the last victim to the next answer.
    pub longest_recovery_seconds: f64,
    /// Commands answered per second, before the first fault and after the last.
    pub operations_per_second: (f64, f64),
}

impl Verdict {
    /// Returns whether the cluster was safe and live.
    pub fn passed(&self) -> bool {
        self.violations.is_empty() && self.divergence.is_none() && self.stalled_at.is_none()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { operations, unanswered, keys, states_taken_over: taken_over, .. } = self;
        let (before, after) = self.operations_per_second;
        let mut lines = vec![
            format!("{} faults in {:.0} s, seed {}", self.injections.len(), self.seconds, self.seed),
            self.retention.to_string(),
            format!("{operations} commands, {unanswered} of them never answered, in {keys} histories of one key each"),
            format!("{taken_over} times a replica was too far behind for blocks and fetched a state"),
            format!("answers resumed at most {:.2} s after the victims returned", self.longest_recovery_seconds),
            format!("{before:.0} commands per second before the first fault, {after:.0} after the last"),
        ];
        match self.violations.len() {
            0 => lines.push("linearizable: no acknowledged command was lost, none was executed twice".into()),
            count => {
                lines.push(format!("NOT LINEARIZABLE: {count} histories; the first:"));
                lines.push(self.violations[0].clone());
            }
        }
        lines.push(match &self.divergence {
            None if self.stalled_at.is_none() => "all replicas executed the same".into(),
            None => "the replicas were not compared".into(),
            Some(what) => format!("THE REPLICAS DIFFER: {what}"),
        });
        if let Some(at) = self.stalled_at {
            lines.push(format!("STALLED at {at:.1} s"));
        }
        if let Some(partial) = &self.partial {
            lines.insert(0, format!("PARTIAL: {partial}"));
        }
        f.write_str(&lines.join("\n"))
    }
}

impl Report for Verdict {
    fn to_table(&self) -> String {
        self.to_string()
    }

    fn failure(&self) -> Option<String> {
        let Verdict { seed, minutes, .. } = self;
        if !self.passed() {
            return Some(format!(
                "the cluster violated safety or stalled; try again with --seed {seed} --minutes {minutes}"
            ));
        }
        let nothing = self.injections.is_empty() && self.partial.is_none();
        nothing.then(|| "no fault was injected, so the run shows nothing; help: raise --minutes".to_owned())
    }
}
