//! quorate: code shared by the tests of several crates. Only tests, benchmarks and fuzz targets depend on it.
//!
//! - [`schemes`], [`wires`]: signature schemes, a transport and a channel outside the lists of shipped ones.
//! - [`bare`]: the wire format, for tests that speak it over bare sockets.
//! - [`ends`]: keys, configurations and sockets of replicas and clients on loopback.
//! - [`pair`], [`hosts`]: two machines, or hosts with routers, in virtual time.
//! - [`levelled`]: an application with feature levels.
//! - [`losses`]: journals that lack a bundle.
//! - [`strangers`]: two sessions disturbed by third parties, for a test and for fuzz targets.
//! - [`stub`]: a transport of which a test implements only the methods that it needs.

pub mod bare;
pub mod ends;
pub mod hosts;
pub mod levelled;
pub mod losses;
pub mod pair;
pub mod schemes;
pub mod strangers;
pub mod stub;
pub mod wires;
