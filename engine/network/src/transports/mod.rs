//! quorate: message transports.
//!
//! A [`Transport`] moves whole frames between authenticated ends. One thread drives it: [`Transport::send`] only
//! queues; [`Transport::poll`] writes the queue (many frames in one system call), waits, and returns the events.
//!
//! A kind of transport is a [`Carrier`] with a [`TransportProfile`]. [`TransportKind::ALL`] lists them; a new one takes
//! one file and one line there. A [`Wire`] is a transport, a channel and their settings: the configuration of hosts,
//! clients and experiments.

mod carrier;
mod config;
mod datagrams;
mod endpoint;
mod error;
pub mod framing;
mod instants;
mod kind;
mod lanes;
mod link_profiles;
mod links;
mod pieces;
pub mod quic;
pub mod retransmission;
pub mod rudp;
pub mod sctp;
mod setting;
mod tcp;
pub mod udp;
mod wire;
mod write_queue;

pub use carrier::{Association, Carrier, TransportProfile};
pub use config::{Congestion, LinkConfig, PacketConfig, QuicConfig, QuicVotes, TcpConfig, WireSettings};
pub use datagrams::{DatagramTransport, Datagrams, Route, Router};
pub use endpoint::{Endpoint, Endpoints, Listening};
pub use error::{LinkError, Refusal, SetupError, WireError};
pub use kind::TransportKind;
pub use link_profiles::{LinkProfile, LinkProfileError};
pub use retransmission::{RetransmissionConfig, RetransmissionProfile};
pub use setting::{ConfigError, Setting};
pub use tcp::TcpTransport;
pub use wire::Wire;
pub use write_queue::{STAGED_BYTES, WriteQueue};

use crate::channels::{Agreed, RemoteIdentity};
use bytes::Bytes;
use quorate_types::{ClientId, Lane, ReplicaId};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Maximum bytes of bulk frames on one link that a later frame cannot overtake, give or take a frame: those ready to be
/// written, and those that the kernel has not sent.
pub const BULK_AHEAD_BYTES: usize = STAGED_BYTES + tcp::UNSENT_BYTES;

/// Id of one authenticated connection; a peer that reconnects gets a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u64);

/// Identity of the remote, as proved by the channel's handshake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Remote {
    /// A member of the committee.
    Replica(ReplicaId),
    Client(ClientId),
    /// An operator: a client that connected through the operators' listener. Its id is an unproved claim.
    Operator(ClientId),
}

impl From<RemoteIdentity> for Remote {
    fn from(identity: RemoteIdentity) -> Remote {
        match identity {
            RemoteIdentity::Replica(replica) => Remote::Replica(replica),
            RemoteIdentity::Client(client) => Remote::Client(client),
        }
    }
}

/// Event reported by a transport.
#[derive(Debug)]
pub enum Event {
    /// A link was established and authenticated.
    Connected { link: LinkId, remote: Remote },
    /// A frame was received.
    Received {
        link: LinkId,
        remote: Remote,
        /// A slice of the receive buffer.
        frame: Bytes,
    },
    /// The path of a link has changed: its remote address, or the packets that it carries.
    Path { link: LinkId, remote: Remote, change: PathChange },
    /// A link has ended.
    Disconnected { link: LinkId, remote: Remote, why: String },
}

/// A change of a link's path that the transport has noticed. Displayed as the predicate of a log message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PathChange {
    /// The remote has proved that it moved to another address.
    #[error("has moved from {from} to {to}: a NAT on the path has changed its source address")]
    Moved { from: SocketAddr, to: SocketAddr },
    /// Packets of this many bytes, headers excluded, do not reach the remote, although short ones do.
    #[error(
        "receives none of the packets of {bytes} bytes, only short ones: packets are cut for an MTU of {mtu} bytes; \
         help: set `mtu_bytes` in [packets] to the MTU of the path"
    )]
    Vanish { bytes: usize, mtu: usize },
    /// Longer packets reach the remote again.
    #[error("receives packets of {bytes} bytes again: packets are cut for an MTU of {mtu} bytes")]
    Pass { bytes: usize, mtu: usize },
}

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes passed to the operating system, framing included.
    pub bytes_sent: u64,
    /// Ethernet packets needed for the writes to streams, if no two writes share one.
    pub stream_packets: u64,
    /// Frames passed to the operating system.
    pub frames_sent: u64,
    /// Number of write calls.
    pub write_calls: u64,
    /// Packets passed to the operating system, by a transport over packets.
    pub packets_sent: u64,
    /// Of these, retransmissions by the transport itself.
    pub retransmissions: u64,
    /// Retransmission timeouts of the transport itself; `None` if it counts none.
    pub retransmission_timeouts: Option<u64>,
    /// Successful handshakes, and their total duration from the first byte or packet, in microseconds.
    pub handshakes: u64,
    pub handshakes_us: u64,
    /// Bytes received, framing included.
    pub bytes_received: u64,
    pub frames_received: u64,
    /// Frames dropped because the queue of a link or of an unconnected replica was full, or because the link had ended.
    pub frames_dropped: u64,
    /// Client links closed for their use of memory, time, places or descriptors.
    pub clients_cut: u64,
    /// Peak of the bytes held by all client links, received or queued.
    pub client_memory_peak_bytes: u64,
}

/// Moves frames. Owned by one thread.
pub trait Transport: Send {
    /// Queues a frame for a replica; drops and counts it if the queue is full. While the replica is not connected, the
    /// newest frames are kept. Frames of [`Lane::Bulk`] wait behind all others that have not reached the operating
    /// system, even those sent later. A vote may be lost if the wire [loses votes](Wire::loses_votes).
    fn send_to(&mut self, to: ReplicaId, frame: Bytes, lane: Lane);
    /// Queues a frame on a link; drops and counts it if the link has ended or its queue is full.
    fn send(&mut self, link: LinkId, frame: Bytes);
    /// Writes queued frames, waits for at most `timeout` (`None`: until something happens), reads, and appends the
    /// events: replicas' frames before clients' frames. May return early without an event, after internal work.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;
    /// Writes frames queued for replicas now, as far as their links accept them; the next poll writes the rest. By
    /// default everything is left to the poll.
    fn flush_replicas(&mut self) {}
    /// Sets for how long the next polls may leave clients' frames unread, so that these frames do not end a wait;
    /// `None` reads them immediately. A transport that cannot tell clients' links apart ignores it.
    fn defer_clients(&mut self, _patience: Option<Duration>) {}
    /// Releases a client's frame, [received](Event::Received) with this many bytes, after it was served: the transport
    /// stops reading from a client with `client_window_bytes` of unreleased frames. Call it once per frame; a closed
    /// link needs no call.
    fn release(&mut self, link: LinkId, bytes: usize);
    /// Returns whether a client has too many unread replies to be served now.
    fn is_congested(&self, link: LinkId) -> bool;
    /// Records whether the data on a client's link is genuine. Genuine links are the last to be evicted.
    fn vouch(&mut self, link: LinkId, genuine: bool);
    /// Returns the source group of a link as a number: its remote's address, or /64 network of an IPv6 address. The
    /// same for all links if the transport knows no addresses.
    fn source_group(&self, _link: LinkId) -> u64 {
        0
    }
    /// Closes a link, after writing as much of its queue as its socket accepts; the next poll reports it.
    fn close(&mut self, link: LinkId, why: String);
    fn is_connected(&self, replica: ReplicaId) -> bool;
    /// Returns the counters since the start.
    fn counters(&self) -> Counters;
    /// Returns the smoothed round-trip times of the links to other replicas that have an estimate.
    fn round_trips(&self) -> Vec<(ReplicaId, Duration)> {
        Vec::new()
    }
    /// Returns the wire versions of the links to other replicas, and the releases of these replicas.
    fn agreed(&self) -> Vec<(ReplicaId, Agreed)> {
        Vec::new()
    }
    /// Removes and returns the most recent refusals, oldest first: links that failed before they were authenticated.
    fn take_refusals(&mut self) -> Vec<Refusal> {
        Vec::new()
    }
    /// Returns the addresses on which it listens; `None` for a client, and after [`Transport::stop_accepting`].
    fn listening(&self) -> Option<Listening> {
        None
    }
    /// Closes the listeners before shutdown: existing links continue, no new ones are accepted, and clients that read
    /// nothing of their queue are disconnected after half a second.
    fn stop_accepting(&mut self);
    /// Returns whether a queued frame has not been passed to the operating system yet.
    fn has_unsent(&self) -> bool;
    /// Returns a function that another thread can call to end a [`Transport::poll`] early.
    fn waker(&self) -> std::sync::Arc<dyn Fn() + Send + Sync>;
}
