//! quorate: which client a replica serves next, and how much work it spends on clients.
//!
//! The node and the simulator share the [`turns`] of clients, their [`budget`] and the rule for giving up [`places`].
//! So an attack that fails against honest clients in the simulator also fails against a real replica. No clock, socket
//! or message type is used here.

pub mod budget;
pub mod places;
pub mod turns;
