//! Why a transport cannot start, and why a link ends.

use crate::config::ConfigError;
use crate::framing::FrameTooLong;
use quorate_channels::ChannelError;
use quorate_types::ReplicaId;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a transport cannot be set up.
#[derive(Debug, Error)]
pub enum SetupError {
    /// A setting cannot be.
    #[error("the transport's configuration is wrong: {0}")]
    Config(#[from] ConfigError),
    /// The own id is not in the committee.
    #[error("replica {me} is not one of the {members} members of the committee: check the replica's id")]
    Stranger {
        /// The own id.
        me: ReplicaId,
        /// How many members there are.
        members: usize,
    },
    /// The channels speak for a replica where a client was to be set up, or the other way round.
    #[error("the channel's identity is a {found}, a {wanted} is to be set up")]
    Role {
        /// What the channel configuration holds.
        found: &'static str,
        /// What the constructor makes.
        wanted: &'static str,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {why}; check that no other process does and that the address is this host's")]
    Listen {
        /// The replica's address.
        address: SocketAddr,
        /// What the operating system says.
        why: io::Error,
    },
    /// The operating system gives no epoll instance or event descriptor.
    #[error("cannot set up polling: {0}")]
    Poll(#[from] io::Error),
}

/// Why a link ended or was never made.
#[derive(Debug, Error)]
pub enum LinkError {
    /// Dialling failed.
    #[error("dialling failed: {0}")]
    Dial(io::Error),
    /// The handshake failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The remote did not finish its handshake in time.
    #[error("no handshake within {0} ms: the remote is overloaded, or not quorate")]
    HandshakeTimeout(u64),
    /// Too many links are waiting for their handshake; the oldest has to go.
    #[error("evicted unauthenticated: {0} newer links wait for their handshake")]
    Crowded(usize),
    /// As many clients are connected as may be.
    #[error("{0} clients are connected, as many as `most_client_links` allows")]
    TooManyClients(usize),
    /// A replica dialled that has to be dialled.
    #[error("replica {0} dialled, but of a pair the lower id dials: its committee differs from this replica's")]
    WrongDirection(ReplicaId),
    /// The authenticated id is not in the committee.
    #[error("replica {0} is not in the committee of this end: the committees differ")]
    NotMember(ReplicaId),
    /// A newer link to the same replica took its place.
    #[error("replaced by a newer link to the same replica")]
    Replaced,
    /// The remote announced a frame over the limit.
    #[error(transparent)]
    FrameTooLong(#[from] FrameTooLong),
    /// The remote closed the stream.
    #[error("the remote closed the connection")]
    Closed,
    /// The operating system reported an error on the stream.
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

/// A link that ended before it was authenticated.
#[derive(Debug)]
pub struct Refusal {
    /// The address at the other end.
    pub address: SocketAddr,
    /// Which replica was dialled; none if the other end dialled.
    pub dialled: Option<ReplicaId>,
    /// Why.
    pub why: LinkError,
}
