//! All tests of this crate in one binary.
#![cfg(unix)]

mod replacing;
