//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod certificate;
mod envelope;
mod handshake;
mod packets;
mod parameters;
mod resumption;
mod tls;
mod versions;
