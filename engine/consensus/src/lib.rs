//! quorate: pure consensus state machines.
//!
//! This crate uses no clock, socket, file, thread, key or random number. A [`Replica`] takes one [`Input`](seam::Input)
//! and returns [`Action`](seam::Action)s; the host does the rest. Start with `testdata/jolteon/happy.txt`, then
//! [`protocols::chained::rules::jolteon`], then [`replica`].

/// Returns whether this historical bug is injected into the replica whose step is running. Always false without the
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

pub mod config;
pub mod data;
pub mod drops;
pub mod facts;
pub mod ids;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod protocols;
pub mod recovery;
pub mod replica;
pub mod seam;
pub mod store;
pub mod voting;

pub use config::Config;
pub use protocols::protocol::Protocol;
pub use replica::Replica;
pub use replica::silence::Silence;
pub use seam::{Action, Envelope, Evidence, Halt, Input, Mark, Message, Refusal, Timer, To};
