//! quorate: order in which a replica serves clients, and limits on the work for them.
//!
//! The node and the simulator share the [`turns`] of clients, their [`budget`], the [`admission`] of bundles and the
//! rule for giving up [`places`], so an attack that fails against honest clients in the simulator also fails against a
//! real replica. No clock, socket or message type is used here.

pub mod admission;
pub mod budget;
pub mod places;
pub mod turns;
