//! quorate: pure consensus state machines.
//!
//! Nothing in this crate knows a clock, a socket, a file, a thread, a key or a random number. A [`Replica`] takes one
//! [`Input`](seam::Input) and answers with [`Action`](seam::Action)s; the host does the rest. Read `testdata/jolteon/happy.txt`
//! first, then [`chained::rules::jolteon`], then [`replica`].

/// Whether the replica that is taking a step was given this historical bug: never, unless the feature `mutants` is on.
#[cfg(feature = "mutants")]
macro_rules! bug {
    ($name:ident) => {
        $crate::mutants::is_had($crate::mutants::Bug::$name)
    };
}

/// Whether the replica that is taking a step was given this historical bug: no.
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
