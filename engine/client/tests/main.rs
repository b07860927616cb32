//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod authenticated_replies;
mod cluster;
mod comparison;
mod config;
mod echo;
mod load_core;
mod parts;
mod reach;
mod session;
mod throttle;
mod workload;
