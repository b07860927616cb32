//! All tests of this crate in one binary.

mod places;
mod turns;
