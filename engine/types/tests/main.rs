//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod address;
mod authenticators;
mod block;
mod choice;
mod codec;
mod commands;
mod common;
mod digest_index;
mod hostile_counts;
mod levels;
mod meter;
mod payload_paths;
mod quorum;
mod replica_threads;
mod settings;
mod signers;
mod stages;
mod state;
mod statement;
mod text;
