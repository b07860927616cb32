//! The tests of this crate, as one binary: what they share is compiled and linked once.

mod ambush;
mod counts;
mod files;
mod hostile;
mod museum;
mod scenarios;
mod simulated;
