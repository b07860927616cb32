//! Adds the rows of one directory of results to another one.

use crate::error::RunnerError;
use crate::store::{Record, Store};
use quorate_lab::experiments::Row;
use quorate_types::Fault;

/// Rows of a merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Merged {
    /// Rows that the directory lacked, or that replaced failures.
    pub added: usize,
    /// Rows that it had already.
    pub present: usize,
}

/// Adds the experiments and rows of `from` to `into`. A row that is there stays, unless it failed and the other one did
/// not.
///
/// # Errors
/// If an experiment differs between the two, a row cannot be read, or `into` cannot be written.
pub fn merge(into: &Store, from: &Store) -> Result<Merged, RunnerError> {
    let known = into.records()?;
    let mut merged = Merged::default();
    for record in from.records()? {
        let experiment = record.experiment()?;
        let name = experiment.name();
        let is_same = |other: &&Record| other.file == record.file && other.profile == record.profile;
        if let Some(other) = known.iter().find(is_same)
            && (&other.text, other.seed) != (&record.text, record.seed)
        {
            let what = format!("the experiment or its seed differs between the directories ({})", record.profile);
            return Err(Fault::new(name, what, "report on them separately").into());
        }
        let most = experiment.plan(record.profile, None)?.repeat.max;
        for key in record.cells.values().flatten() {
            for repetition in 0..most {
                let Some(row) = from.load(key, repetition)? else { continue };
                match into.load(key, repetition)? {
                    Some(own) if is_better(&own, &row) => merged.present += 1,
                    _ => {
                        into.save(key, &row)?;
                        merged.added += 1;
                    }
                }
            }
        }
        into.record(&name, &record)?;
    }
    Ok(merged)
}

fn is_better(own: &Row, other: &Row) -> bool {
    let succeeded = |row: &Row| row.failure.is_none() && row.not_measurable.is_none();
    succeeded(own) || !succeeded(other)
}
