//! quorate: pure consensus state machines.
//!
//! This crate uses no clock, socket, file, thread, key or random number. A [`Replica`] takes one [`Input`](seam::Input)
//! and returns [`Action`](seam::Action)s; the host does the rest. Start with `testdata/jolteon/happy.txt`, then
//! [`chained::rules::jolteon`], then [`replica`].

/// Returns whether this historical bug is injected into the replica that is taking a step. Always false without the
/// feature `mutants`.
#[cfg(feature = "mutants")]
macro_rules! bug {
    ($name:ident) => {
        $crate::mutants::is_had($crate::mutants::Bug::$name)
    };
}

/// Always false: no bug can be injected without the feature `mutants`.
#[cfg(not(feature = "mutants"))]
macro_rules! bug {
    ($name:ident) => {
        false
    };
}

pub mod alone;
pub mod answers;
pub mod basic;
pub mod batching;
pub mod block_limits;
pub mod block_tree;
pub mod chained;
pub mod checkpoints;
pub mod config;
pub mod digest_map;
pub mod encoding;
pub mod facts;
pub mod fairness;
pub mod frontier;
mod jobs;
pub mod journal;
pub mod lanes;
pub mod leader;
pub mod ledger;
pub mod marks;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod outbox;
pub mod pacemaker;
pub mod parts;
pub mod pbft;
pub mod pool;
pub mod protocol;
pub mod protocols;
pub mod registry;
pub mod replica;
pub mod safety;
pub mod seam;
pub mod silence;
pub mod store;
pub mod tally;
pub mod text;
pub mod transfer;
pub mod views;
pub mod wants;

pub use config::Config;
pub use replica::{Protocol, Replica};
pub use seam::{Action, Envelope, Evidence, Halt, Input, Mark, Message, Refusal, Timer, To};
pub use silence::Silence;
