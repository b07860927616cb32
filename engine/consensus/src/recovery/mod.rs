//! Restart and catch-up: the journal, checkpoints of the executed state, state transfer, and missing bundles.

pub mod absence;
pub mod checkpoints;
pub mod frontier;
pub(crate) mod jobs;
pub mod journal;
pub mod transfer;
