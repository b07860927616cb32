//! The tests of Byzantine behaviours as one binary, so that shared code is compiled and linked once.

mod conformance;
mod copies;
mod faults;
mod rewriting;
