//! The protocols: the interface between a protocol and the surrounding shell, and one folder per family.

pub mod basic;
pub mod chained;
pub mod outbox;
pub mod parts;
pub mod pbft;
pub mod protocol;
pub mod registry;
pub mod turn;
pub mod views;
