//! The tests of this crate, as one binary: what they share is compiled and linked once.

mod account;
mod common;
mod crash;
mod damage;
mod faults;
mod file;
mod memory;
mod reading;
mod recycling;
