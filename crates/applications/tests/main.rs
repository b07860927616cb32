//! The tests of this crate, as one binary: what they share is compiled and linked once.

mod at_most_once;
mod checkpoints;
mod common;
mod executor;
mod history;
mod key_value;
mod sessions;
