//! Outputs of the machines of packet connections.

use crate::channels::ChannelError;
use bytes::Bytes;
use std::net::SocketAddr;
use thiserror::Error;

/// Request or report of a machine to its driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send these bytes to the other end, in one packet.
    Packet(Bytes),
    /// Send these bytes in one packet to this address, which is not the other end's.
    PacketTo(SocketAddr, Bytes),
    /// The other end has moved to this address: send later packets there.
    Moved(SocketAddr),
    /// The connection is established and frames can pass. Reported once.
    Established,
    /// A frame was received.
    Frame(Bytes),
    /// The path now carries packets of at most `bytes` bytes, excluding the headers of UDP and IP. Longer ones
    /// vanished, or pass again. `before` is the previous limit.
    PathCarries { before: usize, bytes: usize },
    /// The connection has ended. This is the last output; later inputs have no effect.
    Lost(Loss),
}

/// Reason why a packet connection ended.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Loss {
    /// The channel rejects the other end.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The remote acknowledged nothing in spite of retransmissions.
    #[error("nothing was acknowledged for {0} ms: the network is cut, or the remote is gone")]
    Silent(u64),
    /// Either end closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The other end has lost this connection's state, and may have begun another connection.
    #[error("the remote has restarted")]
    Restarted,
    /// The other end violated the protocol.
    #[error("the remote broke the protocol: {0}")]
    Violation(&'static str),
    /// The other end announced a frame longer than the limit.
    #[error("the remote announced a frame of {bytes} bytes, over the limit of {limit}")]
    FrameTooLong { bytes: usize, limit: usize },
}

/// Origin of a packet that names a connection but does not come from its remote's known address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detour {
    /// The packet's source address.
    pub from: SocketAddr,
    /// The remote's known address.
    pub home: SocketAddr,
    /// [Proofs](crate::channels::Greeter::proofs) of the source address: the current one, used to challenge its owner,
    /// and the previous one.
    pub proofs: [u64; 2],
}
