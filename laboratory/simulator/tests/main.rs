//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod adoption_sweep;
mod chaos;
mod charges;
mod clients;
mod clocks;
mod common;
mod crash_sweep;
mod determinism;
mod hardships;
mod hostile;
mod late_votes;
mod lost_disks;
mod machines;
mod macs;
mod marks;
mod network;
mod off_path;
mod one_desk;
mod overload;
mod phases;
mod probes;
mod state_transfer;
mod tcp;
mod transfers;
mod upgrades;
mod verifiers;
