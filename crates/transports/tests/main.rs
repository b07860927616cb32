//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod clients;
mod conformance;
mod cuts;
mod datagrams;
mod framing;
mod listeners;
mod quic;
mod rudp;
mod support;
mod toy;
mod wire;
