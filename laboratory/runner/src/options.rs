//! Options of running experiments.

use crate::here::Here;
use crate::store::Store;
use quorate_lab::bench::Workers;
use quorate_lab::experiments::{Instrument, Profile};
use std::sync::Arc;
use std::time::SystemTime;

/// Options of running experiments.
#[derive(Clone, Debug)]
pub struct Run {
    pub here: Here,
    pub store: Store,
    pub profile: Profile,
    /// Instruments; `None` for the profile's.
    pub instruments: Option<Vec<Instrument>>,
    /// Seed of repetition 0; `None` for the file's.
    pub seed: Option<u64>,
    /// Maximum number of simultaneous simulations on this machine.
    pub slots: usize,
    /// Hosts that run the cells; `None` for this machine.
    pub workers: Option<Arc<Workers>>,
    /// Time after which no run begins.
    pub until: Option<SystemTime>,
    /// Whether only cells of claims are run.
    pub only_claims: bool,
    /// Whether other processes run the same experiments in the directory.
    pub shared: bool,
    /// Whether simulations run in Callgrind, which counts their instructions.
    pub counts_instructions: bool,
}

impl Run {
    /// Returns whether `until` has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| SystemTime::now() >= until)
    }

    /// Returns the number of places that run cells: the workers, or this machine.
    pub(crate) fn places(&self) -> usize {
        self.workers.as_ref().map_or(1, |workers| workers.count())
    }

    /// Returns the number of simultaneous simulations of a place; 0 if it has failed.
    pub(crate) fn slots_at(&self, place: usize) -> usize {
        match &self.workers {
            Some(workers) if workers.lives(place) => workers.slots(place),
            Some(_) => 0,
            None => self.slots,
        }
    }
}
