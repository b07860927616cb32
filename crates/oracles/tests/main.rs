//! The tests of this crate, as one binary.

mod backing;
mod order;
mod stage;
mod work;
