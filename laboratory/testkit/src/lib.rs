//! quorate: what tests of several crates share. Only tests, benchmarks and fuzz targets depend on it.
//!
//! - [`schemes`], [`wires`]: signature schemes, a transport and a channel that are in no list.
//! - [`ends`]: keys, configurations and sockets of replicas and clients on loopback.
//! - [`pair`], [`hosts`]: two machines, or hosts with routers, in virtual time.
//! - [`strangers`]: two sessions that strangers disturb, for a test and for fuzz targets.
//! - [`stub`]: a transport of which a test writes only the methods that it needs.

pub mod ends;
pub mod hosts;
pub mod pair;
pub mod schemes;
pub mod strangers;
pub mod stub;
pub mod wires;
