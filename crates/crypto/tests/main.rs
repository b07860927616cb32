//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod bundles;
mod cache;
mod committees;
mod common;
mod conformance;
mod key_files;
mod pairs;
mod toy;
mod zip215;
