//! All tests of this crate in one binary.

mod backing;
mod chain;
mod order;
mod stage;
mod work;
