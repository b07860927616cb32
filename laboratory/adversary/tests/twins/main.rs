//! The tests of Twins as one binary, so that shared code is compiled and linked once.

mod ambush;
mod counts;
mod disks;
mod files;
mod foreign;
mod hostile;
mod macs;
mod museum;
mod mutants;
mod scenarios;
mod simulated;
mod simulated_hunts;
