//! Judges the contents of a results directory.

use crate::error::RunnerError;
use crate::judged::Judged;
use crate::store::{Record, Store};
use quorate_lab::experiments::{Experiment, Instrument, Plan, Profile, Row};
use quorate_types::Fault;

/// A completed experiment, with its rows.
pub struct Archived {
    /// The experiment as it was run.
    pub record: Record,
    pub experiment: Experiment,
    pub profile: Profile,
    pub instruments: Vec<Instrument>,
    pub rows: Vec<Row>,
}

impl Archived {
    /// Returns the plan of the rows.
    ///
    /// # Errors
    /// If the experiment has no such plan.
    pub fn plan(&self) -> Result<Plan<'_>, Fault> {
        self.experiment.plan(self.profile, Some(&self.instruments))
    }

    /// Judges the claims on the rows.
    ///
    /// # Errors
    /// If the experiment has no plan for its instruments.
    pub fn judged(&self) -> Result<Judged, Fault> {
        Ok(Judged::of(&self.plan()?, self.rows.clone()))
    }
}

/// Reads all experiments of a directory with their rows.
///
/// # Errors
/// If a file in the directory cannot be used.
pub fn read(store: &Store) -> Result<Vec<Archived>, RunnerError> {
    store.records()?.iter().map(|record| read_one(store, record)).collect()
}

fn read_one(store: &Store, record: &Record) -> Result<Archived, RunnerError> {
    let experiment = record.experiment()?;
    let instruments = record.instruments(&experiment);
    let mut rows = Vec::new();
    let plan = experiment.plan(record.profile, Some(&instruments))?;
    for instrument in &instruments {
        let keys = record.cells.get(instrument.name()).map_or(&[][..], Vec::as_slice);
        let cells = plan.cells.iter().filter(|cell| cell.instrument == *instrument);
        for (cell, key) in cells.zip(keys) {
            for repetition in 0..plan.repeat.max {
                let row = store.load(key, repetition)?;
                rows.extend(row.map(|row| stamped(&plan, cell, row)));
            }
        }
    }
    Ok(Archived { record: record.clone(), profile: record.profile, instruments, rows, experiment })
}

/// Returns a kept row as a row of this plan, since other experiments may share the cell.
pub(crate) fn stamped(plan: &Plan, cell: &quorate_lab::experiments::Cell, row: Row) -> Row {
    Row { experiment: plan.experiment.name(), profile: plan.profile, cell: cell.values(), ..row }
}
