//! PBFT: its transcripts, its costs, and directed scenarios.

mod attacks;
mod chaos;
mod cost;
mod floods;
mod gaps;
mod golden;
mod golden_mac;
mod life;
mod lost_disks;
mod memory;
mod parts;
mod phases;
mod proofs;
mod sets;
