//! The protocols: the interface between a protocol and the shell around it, and one folder for each family.

pub mod basic;
pub mod chained;
pub mod outbox;
pub mod parts;
pub mod pbft;
pub mod protocol;
pub mod registry;
pub mod turn;
pub mod views;
