//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod admission;
mod bls;
mod bundles;
mod cache;
mod client_macs;
mod clocks;
mod committees;
mod common;
mod conformance;
mod encrypted_key_files;
mod forms;
mod genesis;
mod key_files;
mod mac_vectors;
mod macs;
mod pairs;
mod replies;
mod secret_commands;
mod tasks;
mod vectors;
mod verdicts;
mod zip215;
