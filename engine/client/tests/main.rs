//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod cluster;
mod comparison;
mod config;
mod echo;
mod load_core;
mod parts;
mod reach;
mod seals;
mod session;
mod throttle;
mod workload;
