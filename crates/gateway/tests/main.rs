//! The tests of this crate, as one binary.

mod places;
mod turns;
