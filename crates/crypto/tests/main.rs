//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod bls;
mod bundles;
mod cache;
mod committees;
mod common;
mod conformance;
mod forms;
mod key_files;
mod pairs;
mod toy;
mod vectors;
mod zip215;
