//! The tests of this crate, as one binary: what they share is compiled and linked once.

mod bundles;
mod cache;
mod committees;
mod common;
mod conformance;
mod key_files;
mod pairs;
mod toy;
mod zip215;
