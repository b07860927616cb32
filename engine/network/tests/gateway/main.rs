//! All tests of this crate in one binary.

mod admission;
mod places;
mod turns;
