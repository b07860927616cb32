//! The tests of this module, as one binary.

mod axes;
mod claims;
mod common;
mod errors;
mod needs;
mod properties;
mod rows;
mod statistics;
