//! The tests of this crate, as one binary: what they share is compiled and linked once.

mod common;
mod damage;
mod replay;
