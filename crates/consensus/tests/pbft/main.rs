//! PBFT: its transcripts, what it costs, and directed scenarios.

#[path = "../common/mod.rs"]
mod common;
#[path = "../golden_files/mod.rs"]
mod golden_files;

mod attacks;
mod chaos;
mod cost;
mod gaps;
mod golden;
mod life;
mod memory;
mod parts;
