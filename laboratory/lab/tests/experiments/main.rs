//! The tests of this crate, as one binary.

mod axes;
mod claims;
mod common;
mod errors;
mod needs;
mod properties;
mod rows;
mod statistics;
