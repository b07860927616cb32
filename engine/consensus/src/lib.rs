//! quorate: pure consensus state machines.
//!
//! This crate uses no clock, socket, file, thread, key or random number. A [`Replica`] takes one [`Input`](seam::Input)
//! and returns [`Action`](seam::Action)s; the host does the rest. Start with `testdata/jolteon/happy.txt`, then
//! [`protocols::chained::rules::jolteon`], then [`replica`].

/// Returns whether this bug is injected into the replica whose step is running; see [`quorate_types::bug`].
macro_rules! bug {
    ($name:ident) => {
        quorate_types::bug!($name)
    };
}

pub mod config;
pub mod data;
pub mod drops;
pub mod facts;
pub mod ids;
pub mod protocols;
pub mod recovery;
pub mod replica;
pub mod seam;
pub mod store;
pub mod voting;

pub use config::Config;
pub use protocols::protocol::Protocol;
#[cfg(feature = "mutants")]
pub use quorate_types::mutants;
pub use replica::Replica;
pub use replica::silence::Silence;
pub use seam::{Action, Envelope, Evidence, Halt, Input, Mark, Message, Refusal, Timer, To};
