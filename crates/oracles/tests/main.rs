//! All tests of this crate in one binary.

mod backing;
mod order;
mod stage;
mod work;
