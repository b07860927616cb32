//! What a node tells of its life, outside the hot path.

use crate::faults::Fault;
use quorate_consensus::Evidence;
use quorate_transports::Remote;
use quorate_types::{ReplicaId, View};
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;

/// Something that an operator may want to know. None of it happens in the steady state of a healthy cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeEvent {
    /// The replica takes connections.
    Listening(SocketAddr),
    /// The replica misbehaves on purpose.
    Misbehaving(Fault),
    /// A peer or a client is connected.
    Connected(Remote),
    /// A peer or a client is gone.
    Lost {
        /// Who.
        remote: Remote,
        /// Why.
        why: String,
    },
    /// A connection failed before it was authenticated.
    Unauthenticated {
        /// Where it comes from or leads to.
        address: SocketAddr,
        /// Why.
        why: String,
    },
    /// A frame of a peer is no message; told once for each link, and counted always.
    Undecodable {
        /// Who sent it.
        from: ReplicaId,
        /// What is wrong with it.
        why: String,
    },
    /// The replica gave a view up.
    TimedOut(View),
    /// Somebody was proven to misbehave.
    Evidence(Evidence),
    /// The replica has stopped as it was asked to.
    Stopped,
}

impl fmt::Display for NodeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |remote: &Remote| match remote {
            Remote::Replica(replica) => format!("replica {replica}"),
            Remote::Client(client) => format!("client {client}"),
        };
        match self {
            NodeEvent::Listening(address) => write!(f, "listening on {address}"),
            NodeEvent::Misbehaving(fault) => write!(f, "WARNING: configured to misbehave: {fault}"),
            NodeEvent::Connected(remote) => write!(f, "{} is connected", name(remote)),
            NodeEvent::Lost { remote, why } => write!(f, "{} is gone: {why}", name(remote)),
            NodeEvent::Unauthenticated { address, why } => write!(f, "no link with {address}: {why}"),
            NodeEvent::Undecodable { from, why } => write!(f, "replica {from} sends what is no message: {why}"),
            NodeEvent::TimedOut(view) => write!(f, "view {view} timed out"),
            NodeEvent::Evidence(evidence) => f.write_str(&describe(evidence)),
            NodeEvent::Stopped => f.write_str("stopped"),
        }
    }
}

/// One readable line of evidence.
pub(crate) fn describe(evidence: &Evidence) -> String {
    let Evidence { first, second } = evidence;
    format!(
        "replica {} signed two {:?} statements in view {}: {:?} at height {} and {:?} at height {}",
        first.voter,
        first.subject.domain,
        first.subject.view,
        first.subject.digest,
        first.subject.height,
        second.subject.digest,
        second.subject.height
    )
}

/// Is told of a node's life, on the replica's own thread: it must return at once.
pub trait Observer: Send {
    /// Takes note.
    fn observe(&mut self, replica: ReplicaId, event: NodeEvent);
}

/// Any closure observes.
impl<F: FnMut(ReplicaId, NodeEvent) + Send> Observer for F {
    fn observe(&mut self, replica: ReplicaId, event: NodeEvent) {
        self(replica, event);
    }
}

/// Writes one line for each event but the coming and going of clients to stderr.
pub struct StderrObserver;

impl Observer for StderrObserver {
    fn observe(&mut self, replica: ReplicaId, event: NodeEvent) {
        let of_a_client = matches!(
            event,
            NodeEvent::Connected(Remote::Client(_)) | NodeEvent::Lost { remote: Remote::Client(_), .. }
        );
        if !of_a_client {
            // A closed stderr is no reason to stop a replica.
            let _ = writeln!(std::io::stderr().lock(), "replica {replica}: {event}");
        }
    }
}

/// Takes no note of anything.
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&mut self, _replica: ReplicaId, _event: NodeEvent) {}
}
