//! The tests of this crate, as one binary: what they share is compiled and linked once.

mod address;
mod authenticators;
mod block;
mod choice;
mod codec;
mod commands;
mod common;
mod hostile_counts;
mod quorum;
mod signers;
mod state;
mod statement;
