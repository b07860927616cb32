//! Errors of setting up a transport, and reasons why a link ends.

use crate::channels::{ChannelError, Loss};
use crate::transports::framing::FrameTooLong;
use crate::transports::setting::ConfigError;
use quorate_types::{Address, Difference, EpochId, Fault, ReplicaId};
use std::io;
use std::net::IpAddr;
use thiserror::Error;

/// Reason why a transport and a channel cannot be combined. The place is always the key `channel`, the one to change.
pub type WireError = Fault<&'static str>;

/// Reason why a transport cannot be set up.
#[derive(Debug, Error)]
pub enum SetupError {
    #[error("invalid transport configuration: {0}")]
    Config(#[from] ConfigError),
    /// The replica's own id is not in the committee.
    #[error("replica {me} is not one of the {members} members of the committee; help: check the replica's id")]
    Stranger { me: ReplicaId, members: usize },
    /// The channel configuration is for a replica and the constructor for a client, or vice versa.
    #[error("the channel's identity is a {found}, expected a {wanted}")]
    Role { found: &'static str, wanted: &'static str },
    #[error("cannot listen on {address}: {why}{}", listening_help(.why))]
    Listen { address: Address, why: io::Error },
    /// The transport does not work with the channel.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The channel cannot be set up.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A system call failed, or an endpoint has the wrong kind.
    #[error("cannot set up the transport: {0}")]
    Io(#[from] io::Error),
}

/// Returns advice for an address that cannot be bound; empty if the kernel lacks the transport, as the error itself
/// says.
fn listening_help(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::Unsupported => "",
        _ => "; help: check that no other process listens on it and that the address is this host's",
    }
}

/// Reason why a link ended or was never made.
#[derive(Debug, Error)]
pub enum LinkError {
    #[error("the name cannot be resolved: {0}; help: check its spelling, and that this host's name servers know it")]
    Name(io::Error),
    #[error("dialling failed: {0}")]
    Dial(io::Error),
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error("no handshake within {0} ms: the remote is overloaded or is not quorate")]
    HandshakeTimeout(u64),
    #[error("no connection within {0} ms: its host does not answer")]
    DialTimeout(u64),
    /// Evicted as the oldest of too many unauthenticated links.
    #[error("evicted before its handshake: `max_unauthenticated_links` newer links wait for theirs")]
    Crowded,
    #[error("{0} clients are connected, the limit of `max_client_links`")]
    TooManyClients(usize),
    /// The maximum number of clients from this address is connected, and all have sent genuine bundles.
    #[error("{links} clients of {address} are connected, the limit of `max_client_links_per_address`")]
    TooManyFromAddress {
        /// IPv4 address, or /64 network of an IPv6 address.
        address: IpAddr,
        links: usize,
    },
    /// Evicted in favour of a new client: this one has sent nothing genuine, or nothing for a long time.
    #[error("idle, and its place is needed: the limit of `max_client_links` is reached")]
    Idle,
    /// The process has run out of descriptors.
    #[error("idle, and its descriptor is needed: this process has run out of them")]
    Descriptors,
    /// The clients' links hold too much memory, and this one holds the most.
    #[error("the links of clients hold {0} bytes, the limit of `client_memory_bytes`, and this one holds the most")]
    Memory(usize),
    #[error("a frame was incomplete after {0} ms (`client_frame_timeout_ms`)")]
    FrameTimeout(u64),
    /// The client reads none of its queue.
    #[error("the client read nothing of its queue for {0} ms (`client_stall_ms`)")]
    Stalled(u64),
    /// The client disconnected before its frames were served.
    #[error("the remote closed the connection before its frames were served")]
    Abandoned,
    /// Sent data was not acknowledged in time.
    #[error("nothing was acknowledged for {0} ms (`unacknowledged_ms`): the network is cut, or its host is gone")]
    Unacknowledged(u64),
    /// Closed by the owner of the transport.
    #[error("{0}")]
    Ended(String),
    #[error("{0} operators are connected, the limit")]
    TooManyOperators(usize),
    /// The remote dialled a listener that does not serve it.
    #[error("{who} dialled the listener for {audience}; help: its configuration must name the address of `{key}`")]
    WrongListener { who: &'static str, audience: &'static str, key: &'static str },
    /// A replica dialled this end, although this end must dial it.
    #[error("replica {0} dialled, but the lower id of a pair dials: its committee differs from this replica's")]
    WrongDirection(ReplicaId),
    #[error("replica {0} is not in the committee of this end: the committees differ")]
    NotMember(ReplicaId),
    /// A newer link to the same replica has replaced this one.
    #[error("replaced by a newer link to the same replica")]
    Replaced,
    #[error(transparent)]
    FrameTooLong(#[from] FrameTooLong),
    #[error("the remote closed the connection")]
    Closed,
    /// The machine of a packet connection failed.
    #[error(transparent)]
    Packets(#[from] Loss),
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

impl LinkError {
    /// Returns the replica whose configuration differs, and the differing parameters, if that is the reason.
    pub fn disagreement(&self) -> Option<(ReplicaId, &[Difference])> {
        match self {
            LinkError::Channel(ChannelError::Parameters { replica, differences })
            | LinkError::Packets(Loss::Channel(ChannelError::Parameters { replica, differences })) => {
                Some((*replica, differences))
            }
            _ => None,
        }
    }

    /// Returns the id of the remote's genesis, if the link was refused because it differs from ours. If the remote is a
    /// replica, it has proved its identity.
    pub fn other_genesis(&self) -> Option<EpochId> {
        match self {
            LinkError::Channel(ChannelError::Genesis { theirs, .. })
            | LinkError::Packets(Loss::Channel(ChannelError::Genesis { theirs, .. })) => Some(*theirs),
            _ => None,
        }
    }

    /// Returns whether a client's link was closed for its use of resources, rather than lost.
    pub(crate) fn is_cut(&self) -> bool {
        use LinkError::{Descriptors, Ended, FrameTimeout, FrameTooLong, Idle, Memory, Stalled};
        matches!(self, Descriptors | Ended(_) | FrameTimeout(_) | FrameTooLong(_) | Idle | Memory(_) | Stalled(_))
    }
}

/// A link that ended before it was authenticated.
#[derive(Debug)]
pub struct Refusal {
    pub address: Address,
    /// Replica that was dialled; `None` if the remote dialled.
    pub dialled: Option<ReplicaId>,
    pub why: LinkError,
}
