//! quorate: message transports.
//!
//! A [`Transport`] moves whole frames between authenticated ends. It is driven by one thread: [`Transport::send`] only queues,
//! [`Transport::poll`] writes what is queued (many frames in one system call), waits, and hands out what came in.
//!
//! A kind of transport is a [`Carrier`] with a [`TransportProfile`]; [`TransportKind::ALL`] lists them, and one more is
//! one file and one line there. A [`Wire`] is a transport, a channel and their settings: what hosts, clients and
//! experiments are configured with.

mod config;
mod datagrams;
mod endpoint;
mod error;
pub mod framing;
mod kind;
mod links;
mod tcp;
mod wire;
mod write_queue;

pub use config::{ConfigError, LinkConfig, SOURCE as CONFIG_SOURCE, TcpConfig, WireSettings};
pub use datagrams::{Association, DatagramTransport, Datagrams};
pub use endpoint::{Endpoint, Endpoints, Listening};
pub use error::{LinkError, Refusal, SetupError};
pub use kind::{Carrier, TransportKind, TransportProfile};
pub use tcp::TcpTransport;
pub use wire::{Wire, WireError};
pub use write_queue::WriteQueue;

use bytes::Bytes;
use quorate_channels::RemoteIdentity;
use quorate_types::{ClientId, ReplicaId};
use std::io;
use std::time::Duration;

/// One authenticated connection, named for as long as it lives; a reconnected peer has a new link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u64);

/// Who is at the other end, as the channel's handshake proved it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Remote {
    /// A member of the committee.
    Replica(ReplicaId),
    /// A client that speaks for this origin.
    Client(ClientId),
    /// An operator, who came in by the listener for operators and calls itself so.
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

/// What a transport reports.
#[derive(Debug)]
pub enum Event {
    /// A link was established and authenticated.
    Connected {
        /// The new link.
        link: LinkId,
        /// Who is there.
        remote: Remote,
    },
    /// A frame came in.
    Received {
        /// The link it came on.
        link: LinkId,
        /// Who sent it.
        remote: Remote,
        /// Its bytes, a slice of the receive buffer.
        frame: Bytes,
    },
    /// A link is gone.
    Disconnected {
        /// The link.
        link: LinkId,
        /// Who was there.
        remote: Remote,
        /// Why.
        why: String,
    },
}

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes given to the operating system, framing included.
    pub bytes_sent: u64,
    /// Frames given to the operating system.
    pub frames_sent: u64,
    /// Write calls made.
    pub write_calls: u64,
    /// Bytes received, framing included.
    pub bytes_received: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Frames given up because a queue was full, of a link or of what waits for a replica, or because the link was gone.
    pub frames_dropped: u64,
    /// Clients' links that were cut for what they took: memory, time, a place, a descriptor.
    pub clients_cut: u64,
    /// Most bytes that all clients' links held at a time, received or queued.
    pub client_memory_peak_bytes: u64,
}

/// Moves frames. One thread owns it.
pub trait Transport: Send {
    /// Queues a frame for a replica; dropped and counted if its queue is full. If it is not connected, the newest frames wait.
    fn send_to(&mut self, to: ReplicaId, frame: Bytes);
    /// Queues a frame on a link; dropped and counted if the link is gone or its queue is full.
    fn send(&mut self, link: LinkId, frame: Bytes);
    /// Writes what is queued, waits for at most `timeout` (none: until something happens), reads, and appends what happened:
    /// replicas' frames before clients' frames. It may return early without an event, after work of its own.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;
    /// Says that a frame of a client, which was [received](Event::Received) with so many bytes, is served: a client whose frames
    /// are not released is read no further than `client_window_bytes`. To be said once for each frame; links that are gone need none.
    fn release(&mut self, link: LinkId, bytes: usize);
    /// Whether a client leaves so much of its replies unread that it should be served no more until it does.
    fn is_congested(&self, link: LinkId) -> bool;
    /// Says of a client's link whether what came over it is genuine: such links keep their places and memory before all others.
    fn vouch(&mut self, link: LinkId, genuine: bool);
    /// A number for the address of a link's remote, or for its /64 network of IPv6; the same for all if the transport knows no addresses.
    fn crowd(&self, _link: LinkId) -> u64 {
        0
    }
    /// Ends a link, once what is queued on it is written as far as its socket takes it; the next poll reports it.
    fn close(&mut self, link: LinkId, why: String);
    /// Whether a replica is connected now.
    fn is_connected(&self, replica: ReplicaId) -> bool;
    /// Counters since the start.
    fn counters(&self) -> Counters;
    /// Takes the newest refusals, oldest first: links that failed before they were authenticated, and why.
    fn take_refusals(&mut self) -> Vec<Refusal> {
        Vec::new()
    }
    /// Where it listens; none for a client, and none once it accepts nobody any more.
    fn listening(&self) -> Option<Listening> {
        None
    }
    /// Closes the listeners, to end soon: the links that live go on, nobody new is accepted, and clients that take nothing of what is
    /// queued for them are cut after half a second.
    fn stop_accepting(&mut self);
    /// Whether something that was queued on a link has not been given to the operating system yet.
    fn has_unsent(&self) -> bool;
    /// Something that another thread can use to end a [`Transport::poll`] early.
    fn waker(&self) -> std::sync::Arc<dyn Fn() + Send + Sync>;
}
