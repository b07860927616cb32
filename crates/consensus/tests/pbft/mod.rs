//! PBFT: its transcripts, its costs, and directed scenarios.

mod attacks;
mod chaos;
mod cost;
mod floods;
mod gaps;
mod golden;
mod life;
mod memory;
mod parts;
mod proofs;
