//! The tests of this crate, as one binary: what they share is compiled and linked once.

mod cluster;
mod config;
mod echo;
mod load_core;
mod reach;
mod session;
mod workload;
