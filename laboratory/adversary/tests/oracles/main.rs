//! All tests of this crate in one binary.

mod backing;
mod chain;
mod fixture;
mod order;
mod work;
