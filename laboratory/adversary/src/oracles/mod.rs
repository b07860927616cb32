//! quorate: invariants of every run, checked against the statements and commits of replicas.
//!
//! [`Statements`] observes the messages that replicas send and the blocks they commit, but no view, lock or tally
//! inside a replica. It uses only the message types of `quorate-consensus`, none of its rules, and counts quorums with
//! its own arithmetic. Twins and the simulator both check their runs with it.
//!
//! [`Chain`] checks commits against one another. The tests of the core use it too.
//!
//! [`Availability`] checks that the bundles of blocks with a quorum of votes are in journals.
//!
//! [`Work`] checks a replica's work against budgets: answers to one peer, the results and size of a block, and bundles
//! that wait because one peer relayed them.
//!
//! [`Share`] checks that clients get their share of blocks next to hostile ones.
//!
//! [`Times`] checks that the times of blocks are near honest clocks, and equal wherever they are executed.
//!
//! [`Levels`] checks the feature levels at which blocks are executed.
//!
//! Only honest replicas are checked. A liar counts as having signed everything that helps to complete a certificate, so
//! the oracles report nothing as long as at most f replicas lie and the others follow the protocol.

mod availability;
mod chain;
mod levels;
mod property;
mod relays;
mod share;
mod statements;
mod tallies;
mod times;
mod view_changes;
mod voices;
mod words;
mod work;

pub use availability::Availability;
pub use chain::{Chain, Discord};
pub use levels::Levels;
pub use property::{Property, Violation};
pub use relays::Relays;
pub use share::Share;
pub use statements::Statements;
pub use tallies::quorum;
pub use times::Times;
pub use words::Words;
pub use work::{
    MAX_ANSWER_BYTES_PER_SECOND, MAX_ANSWER_SIGNATURES_PER_SECOND, MAX_BLOCK_RESULT_BYTES, Weight, Work, is_answer,
};
