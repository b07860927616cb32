//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod baselines;
mod calibrate;
mod chaos;
mod common;
mod configuration;
mod emulated;
mod fidelity;
mod hosts;
mod loads;
mod machines;
mod misbehaviour;
mod noise;
mod pairs;
mod peers;
mod recording;
mod report;
mod result;
mod schemes;
mod simulation;
mod spec_errors;
mod spec_round_trip;
mod stages;
mod torture;
mod wires;

/// Tests that count allocations need a counting allocator.
#[global_allocator]
static ALLOCATOR: quorate_node::allocations::CountingAllocator = quorate_node::allocations::CountingAllocator;
