//! Progress of a run, for an observer.

use quorate_lab::experiments::{Instrument, Row};
use std::time::Duration;

/// One run of a cell, for progress reports.
#[derive(Clone, Debug)]
pub struct Step<'s> {
    pub experiment: &'s str,
    pub instrument: Instrument,
    /// The coordinates in words.
    pub cell: String,
    pub repetition: u32,
    /// Number of completed runs.
    pub done: usize,
    /// Number of runs known so far; undecided claims may add more.
    pub total: usize,
    /// Expected remaining time.
    pub left: Duration,
}

/// Observer of a run.
pub trait Observer {
    fn on_start(&mut self, step: &Step<'_>);
    fn on_end(&mut self, step: &Step<'_>, row: &Row);
    /// Reports that `count` runs of an experiment already exist.
    fn on_reuse(&mut self, experiment: &str, count: usize);
    /// Reports that more runs are needed, with the first one's reason.
    fn on_need(&mut self, experiment: &str, count: usize, why: &str);
    fn warn(&mut self, text: &str);
}
