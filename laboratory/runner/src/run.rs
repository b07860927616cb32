//! Runs the cells of an experiment, one repetition after another, and repeats cells for undecided claims.

use crate::call::{Call, Files, known};
use crate::catalogue::Source;
use crate::cells::{Cells, Runnable};
use crate::course::Course;
use crate::error::RunnerError;
use crate::judged::Judged;
use crate::missing::Missing;
use crate::options::Run;
use crate::progress::Observer;
use crate::store::{Record, seed};
use quorate_lab::experiments::{Experiment, Instrument, Plan};
use quorate_types::Fault;
use std::collections::BTreeMap;

impl Run {
    /// Checks an experiment without running it.
    ///
    /// # Errors
    /// If a key or a value of a specification is invalid: its place and the remedy.
    pub fn check(&self, source: &Source) -> Result<(), RunnerError> {
        let experiment = self.read(source)?;
        let plan = experiment.plan(self.profile, self.instruments.as_deref())?;
        self.runnable(&plan).map(|_| ())
    }

    /// Returns the calls of an experiment's cells.
    ///
    /// # Errors
    /// If the experiment is invalid.
    pub fn calls(&self, source: &Source) -> Result<Vec<Call>, RunnerError> {
        let experiment = self.read(source)?;
        let plan = experiment.plan(self.profile, self.instruments.as_deref())?;
        Ok(self.runnable(&plan)?.into_iter().map(|runnable| runnable.call).collect())
    }

    /// Runs an experiment and judges its claims. A signal ends it, and the runs in progress are lost; after `until`, it
    /// ends once they have ended.
    ///
    /// # Errors
    /// If the experiment is invalid, or results cannot be stored. A failed run is a row.
    pub fn experiment_with(&self, source: &Source, observer: &mut dyn Observer) -> Result<Judged, RunnerError> {
        let experiment = self.read(source)?;
        let plan = experiment.plan(self.profile, self.instruments.as_deref())?;
        let runnable = self.runnable(&plan)?;
        self.store.record(&experiment.name(), &self.record(source, &plan, &runnable))?;
        let cells = Cells { run: self, plan: &plan, name: experiment.name(), runnable };
        let mut course = Course::new(&cells);
        course.reuse(observer);
        course.note_obstacles(observer)?;
        course.run(observer)?;
        let (rows, partial, left) = course.finish();
        Ok(Judged { partial, left, ..Judged::of(&plan, rows) })
    }

    /// Returns the runs that an experiment lacks in the directory.
    ///
    /// # Errors
    /// If the experiment is invalid, or a row cannot be read.
    pub fn missing(&self, source: &Source) -> Result<Missing, RunnerError> {
        let experiment = self.read(source)?;
        let plan = experiment.plan(self.profile, self.instruments.as_deref())?;
        let cells = self.runnable(&plan)?;
        Missing::of(experiment.name(), &self.store, &plan, &cells)
    }

    pub(crate) fn read(&self, source: &Source) -> Result<Experiment, RunnerError> {
        let mut experiment = source.experiment()?;
        experiment.check_keys(known)?;
        seed(&mut experiment, self.seed);
        Ok(experiment)
    }

    pub(crate) fn runnable(&self, plan: &Plan) -> Result<Vec<Runnable>, RunnerError> {
        let of_cell = |cell| {
            let files = Files { costs: self.here.costs.as_deref(), hosts: self.here.hosts.as_deref() };
            let call = Call::of(plan, cell, files)?;
            let mut surroundings = self.here.surroundings(&call)?;
            if self.counts_instructions && cell.instrument == Instrument::Simulated {
                surroundings.build.push_str(", instructions counted");
            }
            let key = cell.key(&surroundings).to_hex();
            let obstacle = match &self.workers {
                Some(workers) => call.obstacle_on(workers),
                None => call.obstacle(),
            };
            Ok(Runnable { call, surroundings, key, obstacle })
        };
        plan.cells.iter().map(of_cell).collect()
    }

    pub(crate) fn record(&self, source: &Source, plan: &Plan, cells: &[Runnable]) -> Record {
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for instrument in &plan.instruments {
            keys.entry(instrument.name().to_owned()).or_default();
        }
        for (cell, runnable) in plan.cells.iter().zip(cells) {
            let own = keys.entry(cell.instrument.name().to_owned()).or_default();
            own.push(runnable.key.clone());
        }
        Record {
            file: source.file.clone(),
            text: source.text.clone(),
            profile: self.profile,
            seed: self.seed,
            cells: keys,
        }
    }
}

/// Returns the error for a name without anything to run on the chosen instruments.
pub fn nothing_to_run(name: &str) -> Fault {
    Fault::new(name, "has no instrument that this program has", "run another experiment, or another --instrument")
}
