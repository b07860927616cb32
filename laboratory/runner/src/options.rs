//! Options of running experiments.

use crate::here::Here;
use crate::store::Store;
use quorate_lab::experiments::{Instrument, Profile};

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
    /// Maximum number of simultaneous simulations.
    pub slots: usize,
    /// Whether other processes run the same experiments in the directory.
    pub shared: bool,
    /// Whether simulations run in Callgrind, which counts their instructions.
    pub counts_instructions: bool,
}
