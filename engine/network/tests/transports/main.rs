//! All tests of this crate in one binary, so that shared code is compiled and linked once.

mod clients;
mod conformance;
mod cuts;
mod datagrams;
mod foreign;
mod foreign_sockets;
mod framing;
mod link_profiles;
mod listeners;
mod moves;
mod path_limit;
mod paths;
mod quic;
mod quic_resumption;
mod quic_votes;
mod relay;
mod reordered;
mod rudp;
mod sctp;
mod sessions;
mod strangers;
mod stream_strangers;
mod wire;
