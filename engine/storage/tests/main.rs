//! All tests of this crate in one binary, which is linked once.

mod account;
mod common;
mod crash;
mod damage;
mod faults;
mod file;
mod memory;
mod reading;
mod recycling;
mod times;
