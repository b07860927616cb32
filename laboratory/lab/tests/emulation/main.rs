//! Tests of the emulated network.

mod netem;
mod packets;
mod privileged;
mod schedule;
