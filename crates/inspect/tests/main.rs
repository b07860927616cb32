//! The tests of this crate, as one binary: what they share is compiled and linked once.

mod inspect;
mod remains;
mod stranger;
mod taken_over;
