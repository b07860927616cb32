//! The tests of this crate, as one binary: what they share is compiled and linked once.

mod clients;
mod conformance;
mod cuts;
mod datagrams;
mod doors;
mod framing;
mod support;
mod toy;
mod wire;
