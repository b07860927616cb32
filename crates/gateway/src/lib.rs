//! quorate: whom of its clients a replica serves next, and what it spends on them.
//!
//! The node and the simulator serve clients by the same [`turns`] and the same [`budget`], and give [`places`] away by the same rule, so that what the simulator's hostile clients
//! cannot do to honest ones, strangers cannot do to a real replica. Nothing here knows a clock, a socket or a message.

pub mod budget;
pub mod places;
pub mod turns;
