//! Restart and catch-up: the journal, checkpoints of the executed state, and state transfer.

pub mod checkpoints;
pub mod frontier;
pub(crate) mod jobs;
pub mod journal;
pub mod transfer;
