//! Tests of the emulated network.

mod packets;
mod privileged;
mod schedule;
