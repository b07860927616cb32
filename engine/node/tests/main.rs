//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod admission;
mod attacker;
mod authentication;
mod cluster;
mod config;
mod descriptors;
mod disk;
mod hostile_clients;
mod interrupt;
mod log;
mod macs;
mod memory;
mod meters;
mod monitoring;
mod network;
mod parameters;
mod peers;
mod progress;
mod reads;
mod replies;
mod restart;
mod secrecy;
mod sessions;
mod snapshots;
mod support;
mod upgrade;
