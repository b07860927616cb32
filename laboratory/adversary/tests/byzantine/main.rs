//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod conformance;
mod faults;
mod rewriting;
