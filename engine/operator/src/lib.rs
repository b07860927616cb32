//! quorate: the commands for operating replicas.
//!
//! The binary `quorate-node` consists of these commands only: it contains no laboratory, no simulator, no Twins, and no
//! code for misbehaviour. `quorate` offers the same commands in addition to the laboratory's. [`inspection`] reads a
//! replica's files.

mod applications;
pub mod backup;
pub mod client;
pub mod commands;
pub mod failure;
pub mod health;
pub mod inspect;
pub mod inspection;
pub mod keys;
mod kubernetes;
pub mod level;
pub mod logging;
pub mod node;
pub mod output;
pub mod replicas;
pub mod report;
pub mod restart;
pub mod rolling;
pub mod setting_flags;
pub mod shell;
pub mod signer;
pub mod skew;
pub mod snapshot;
pub mod standstill;
pub mod status;
pub mod testnet;
pub mod watch;
mod words;

pub use words::{BadValue, Interval, MAX_INTERVAL_MS, choice};

/// Result of a command.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;
