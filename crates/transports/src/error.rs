//! Errors that keep a transport from starting, and reasons why a link ends.

use crate::config::ConfigError;
use crate::framing::FrameTooLong;
use crate::wire::WireError;
use quorate_channels::{ChannelError, Loss};
use quorate_types::{Address, ReplicaId};
use std::io;
use std::net::IpAddr;
use thiserror::Error;

/// Reason why a transport cannot be set up.
#[derive(Debug, Error)]
pub enum SetupError {
    #[error("the transport's configuration is wrong: {0}")]
    Config(#[from] ConfigError),
    /// The replica's own id is not in the committee.
    #[error("replica {me} is not one of the {members} members of the committee: check the replica's id")]
    Stranger {
        me: ReplicaId,
        /// Size of the committee.
        members: usize,
    },
    /// The channel configuration is for a replica and the constructor for a client, or the reverse.
    #[error("the channel's identity is a {found}, a {wanted} is to be set up")]
    Role {
        /// Role in the channel configuration.
        found: &'static str,
        /// Role that the constructor makes.
        wanted: &'static str,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {why}; check that no other process does and that the address is this host's")]
    Listen { address: Address, why: io::Error },
    /// The transport does not work with the channel.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The operating system refused a descriptor or gave an endpoint of the wrong kind.
    #[error("cannot set up the transport: {0}")]
    Io(#[from] io::Error),
}

/// Reason why a link ended or was never made.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The host name cannot be resolved.
    #[error("the name cannot be resolved: {0}; check how it is written, and that this host's name servers know it")]
    Name(io::Error),
    #[error("dialling failed: {0}")]
    Dial(io::Error),
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The remote did not finish its handshake in time.
    #[error("no handshake within {0} ms: the remote is overloaded, or not quorate")]
    HandshakeTimeout(u64),
    /// The dial timed out.
    #[error("no connection within {0} ms: its host does not answer")]
    DialTimeout(u64),
    /// Evicted as the oldest of too many links waiting for their handshake.
    #[error(
        "evicted unauthenticated: as many newer links wait for their handshake as `max_unauthenticated_links` allows"
    )]
    Crowded,
    /// The maximum number of clients is connected, all of them genuine.
    #[error("{0} clients are connected, as many as `max_client_links` allows")]
    TooManyClients(usize),
    /// The maximum number of clients from one address is connected, all of them genuine.
    #[error("{links} clients of {address} are connected, as many as `max_client_links_per_address` allows")]
    TooManyFromAddress {
        /// IPv4 address, or /64 network of IPv6.
        address: IpAddr,
        links: usize,
    },
    /// Evicted in favour of a newcomer: the client has sent nothing genuine, or nothing for long.
    #[error("idle, and its place is needed: as many clients are connected as `max_client_links` allows")]
    Idle,
    /// The process has run out of descriptors.
    #[error("idle, and its descriptor is needed: this process has none left")]
    Descriptors,
    /// The clients' links hold too much memory, and this one holds most.
    #[error("the links of clients hold {0} bytes, as many as `client_memory_bytes` allows, and this one holds most")]
    Memory(usize),
    /// A frame was begun but not finished in time.
    #[error("a frame was not whole after {0} ms (`client_frame_timeout_ms`)")]
    FrameTimeout(u64),
    /// The client reads none of its queue.
    #[error("the client took nothing of what is queued for it for {0} ms (`client_stall_ms`)")]
    Stalled(u64),
    /// The client left before its frames were served.
    #[error("the remote closed the connection and waits for no answer")]
    Abandoned,
    /// Sent data was not acknowledged in time.
    #[error("nothing was acknowledged for {0} ms (`unacknowledged_ms`): the network is cut, or its host is gone")]
    Unacknowledged(u64),
    /// Closed by the owner of the transport.
    #[error("{0}")]
    Ended(String),
    /// The maximum number of operators is connected.
    #[error("{0} operators are connected, as many as may be")]
    TooManyOperators(usize),
    /// The remote dialled a listener that does not serve it.
    #[error("{who} dialled the listener for {door}: its configuration has to name the address of `{key}`")]
    WrongDoor {
        /// Role of the remote.
        who: &'static str,
        /// Role that the listener serves.
        door: &'static str,
        /// Configuration key of the right address.
        key: &'static str,
    },
    /// A replica dialled although this end has to dial.
    #[error("replica {0} dialled, but of a pair the lower id dials: its committee differs from this replica's")]
    WrongDirection(ReplicaId),
    /// The authenticated id is not in the committee.
    #[error("replica {0} is not in the committee of this end: the committees differ")]
    NotMember(ReplicaId),
    /// A newer link to the same replica has replaced this one.
    #[error("replaced by a newer link to the same replica")]
    Replaced,
    #[error(transparent)]
    FrameTooLong(#[from] FrameTooLong),
    /// The remote closed the stream.
    #[error("the remote closed the connection")]
    Closed,
    /// The machine of a packet connection gave up.
    #[error(transparent)]
    Packets(#[from] Loss),
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

impl LinkError {
    /// Returns whether a client's link was cut for its use of resources, rather than lost.
    pub(crate) fn is_cut(&self) -> bool {
        use LinkError::{Descriptors, Ended, FrameTimeout, FrameTooLong, Idle, Memory, Stalled};
        matches!(self, Descriptors | Ended(_) | FrameTimeout(_) | FrameTooLong(_) | Idle | Memory(_) | Stalled(_))
    }
}

/// A link that ended before it was authenticated.
#[derive(Debug)]
pub struct Refusal {
    /// Remote address.
    pub address: Address,
    /// Replica that was dialled; `None` if the remote dialled.
    pub dialled: Option<ReplicaId>,
    pub why: LinkError,
}
