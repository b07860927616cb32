//! quorate: transport of frames between authenticated ends.
//!
//! [`channels`] protect bytes, [`transports`] move frames over them, and [`gateway`] divides a replica's time and
//! connection slots among its clients. All three are sans-I/O state machines as far as possible, so the simulator runs
//! the same code.

pub mod channels;
pub mod gateway;
pub mod transports;
