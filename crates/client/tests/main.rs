//! The tests of this crate, in one binary to compile and link shared code once.

mod cluster;
mod config;
mod echo;
mod load_core;
mod reach;
mod session;
mod workload;
