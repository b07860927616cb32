//! quorate: what it takes to run replicas.
//!
//! The binary `quorate-node` is these commands and nothing else: it has no laboratory, no simulator, no Twins, and no way to misbehave.
//! `quorate` has the same commands, from here, beside those of the laboratory.

pub mod client;
pub mod failure;
pub mod inspect;
pub mod logging;
pub mod node;
pub mod output;
pub mod replicas;
pub mod shell;
pub mod status;
pub mod testnet;
mod words;

pub use words::{BadValue, Interval, MAX_INTERVAL_MS, choice};

/// What came of a command.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;
