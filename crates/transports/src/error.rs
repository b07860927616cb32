//! Why a transport cannot start, and why a link ends.

use crate::config::ConfigError;
use crate::framing::FrameTooLong;
use crate::wire::WireError;
use quorate_channels::{ChannelError, Loss};
use quorate_types::{Address, ReplicaId};
use std::io;
use std::net::IpAddr;
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
        address: Address,
        /// What the operating system says.
        why: io::Error,
    },
    /// The transport and the channel do not fit together.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The operating system refuses what the transport needs besides: a descriptor, an endpoint of the right kind.
    #[error("cannot set up the transport: {0}")]
    Io(#[from] io::Error),
}

/// Why a link ended or was never made.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The host's name has no address.
    #[error("the name cannot be resolved: {0}; check how it is written, and that this host's name servers know it")]
    Name(io::Error),
    /// Dialling failed.
    #[error("dialling failed: {0}")]
    Dial(io::Error),
    /// The handshake failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The remote did not finish its handshake in time.
    #[error("no handshake within {0} ms: the remote is overloaded, or not quorate")]
    HandshakeTimeout(u64),
    /// The replica cannot be reached in time.
    #[error("no connection within {0} ms: its host does not answer")]
    DialTimeout(u64),
    /// Too many links are waiting for their handshake; the oldest has to go.
    #[error(
        "evicted unauthenticated: as many newer links wait for their handshake as `max_unauthenticated_links` allows"
    )]
    Crowded,
    /// As many clients are connected as may be, and each of them has sent something genuine.
    #[error("{0} clients are connected, as many as `max_client_links` allows")]
    TooManyClients(usize),
    /// As many clients of an address are connected as may be, and each of them has sent something genuine.
    #[error("{links} clients of {address} are connected, as many as `max_client_links_per_address` allows")]
    TooManyFromAddress {
        /// The address, or network of IPv6.
        address: IpAddr,
        /// How many.
        links: usize,
    },
    /// A newcomer has the place of a client that has sent nothing genuine, or nothing for long.
    #[error("idle, and its place is needed: as many clients are connected as `max_client_links` allows")]
    Idle,
    /// The descriptors are used up.
    #[error("idle, and its descriptor is needed: this process has none left")]
    Descriptors,
    /// The links of clients hold too much memory, and this one has a large part of it.
    #[error("the links of clients hold {0} bytes, as many as `client_memory_bytes` allows, and this one holds most")]
    Memory(usize),
    /// A frame was begun and not finished.
    #[error("a frame was not whole after {0} ms (`client_frame_timeout_ms`)")]
    FrameTimeout(u64),
    /// The client takes nothing of what is queued for it.
    #[error("the client took nothing of what is queued for it for {0} ms (`client_stall_ms`)")]
    Stalled(u64),
    /// The client has gone while what it had sent was not served yet.
    #[error("the remote closed the connection and waits for no answer")]
    Abandoned,
    /// What was sent is not acknowledged.
    #[error("nothing was acknowledged for {0} ms (`unacknowledged_ms`): the network is cut, or its host is gone")]
    Unacknowledged(u64),
    /// The owner of the transport ended it.
    #[error("{0}")]
    Ended(String),
    /// As many operators are connected as may be.
    #[error("{0} operators are connected, as many as may be")]
    TooManyOperators(usize),
    /// The remote has nothing to do at the listener that it dialled.
    #[error("{who} dialled the listener for {door}: its configuration has to name the address of `{key}`")]
    WrongDoor {
        /// What the remote is.
        who: &'static str,
        /// Who is served there.
        door: &'static str,
        /// The key that has the right address.
        key: &'static str,
    },
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
    /// The machine of a connection over packets gave it up.
    #[error(transparent)]
    Packets(#[from] Loss),
    /// The operating system reported an error on the stream.
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

impl LinkError {
    /// Whether a client's link was cut for what it took, rather than lost.
    pub(crate) fn is_cut(&self) -> bool {
        use LinkError::{Descriptors, Ended, FrameTimeout, FrameTooLong, Idle, Memory, Stalled};
        matches!(self, Descriptors | Ended(_) | FrameTimeout(_) | FrameTooLong(_) | Idle | Memory(_) | Stalled(_))
    }
}

/// A link that ended before it was authenticated.
#[derive(Debug)]
pub struct Refusal {
    /// The address at the other end.
    pub address: Address,
    /// Which replica was dialled; none if the other end dialled.
    pub dialled: Option<ReplicaId>,
    /// Why.
    pub why: LinkError,
}
