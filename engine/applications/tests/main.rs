//! All tests of this crate in one binary, which is linked once.

mod at_most_once;
mod checkpoints;
mod common;
mod executor;
mod history;
mod key_value;
mod levels;
mod parallel;
mod sessions;
mod times;
