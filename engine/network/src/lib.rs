//! quorate: how frames travel between authenticated ends.
//!
//! [`channels`] protect bytes, [`transports`] move frames over them, and [`gateway`] shares a replica's time and places
//! among its clients. All three are state machines without I/O as far as that is possible, so that the simulator runs
//! the same code.

pub mod channels;
pub mod gateway;
pub mod transports;
