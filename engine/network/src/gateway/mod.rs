//! quorate: scheduling of a replica's clients, and limits on the work for them.
//!
//! The node and the simulator share the clients' [`turns`] and [`budget`], the [`admission`] of bundles and the rule
//! for evicting links from their [`places`]. So an attack that fails in the simulator also fails against a real
//! replica. No clock, socket or message type is used here.

pub mod admission;
pub mod budget;
pub mod places;
pub mod turns;
