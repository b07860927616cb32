//! What a node tells of its life, outside the hot path.

use crate::laboratory::Fault;
use quorate_consensus::Evidence;
use quorate_transports::{Listening, Remote};
use quorate_types::{Address, Height, ReplicaId, View};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

/// Something that an operator may want to know. None of it happens in the steady state of a healthy cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeEvent {
    /// The replica takes connections.
    Listening(Listening),
    /// The replica misbehaves on purpose.
    Misbehaving(Fault),
    /// Something about the journal that an operator may want to know.
    Journal(String),
    /// The replica goes on where its journal ends.
    Restarted {
        /// The last view in which it has said anything.
        view: View,
        /// The height up to which it has executed.
        height: Height,
    },
    /// The blocks that the replica lacks are gone, and it fetches the state from the others.
    FetchesState {
        /// The height of the state.
        height: Height,
    },
    /// It knows what that state consists of.
    ReceivesState {
        /// The height of the state.
        height: Height,
        /// How many chunks it has.
        chunks: u32,
        /// How many of them are here already, in the replica's own state or from a transfer that was broken off.
        held: usize,
    },
    /// The replica has taken a state over from the others.
    AdoptedState {
        /// Up to where it had executed before.
        from: Height,
        /// The height of the state.
        height: Height,
    },
    /// The journal is gone or was cut.
    Forgot,
    /// The others have told how far they are.
    Abstains {
        /// The last view in which the replica may have spoken, and says nothing.
        up_to: View,
    },
    /// A replica that had lost its journal takes part again.
    TakesPart(View),
    /// What the replica takes and gives is recorded in that file.
    Recording(PathBuf),
    /// The recording has become as large as it may, and ends.
    RecordingFull,
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
        address: Address,
        /// Which replica was dialled; none if the other end dialled.
        dialled: Option<ReplicaId>,
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
    /// A peer passes on a bundle that its client did not sign; told once for each link, and counted always.
    Forged {
        /// Who sent it.
        from: ReplicaId,
    },
    /// The replica gave a view up.
    TimedOut(View),
    /// Somebody was proven to misbehave.
    Evidence(Evidence),
    /// The replica has stopped as it was asked to.
    Stopped {
        /// Up to where it has executed.
        height: Height,
    },
}

impl fmt::Display for NodeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |remote: &Remote| match remote {
            Remote::Replica(replica) => format!("replica {replica}"),
            Remote::Client(client) => format!("client {client}"),
            Remote::Operator(_) => "an operator".to_owned(),
        };
        match self {
            NodeEvent::Listening(listening) => listening.fmt(f),
            NodeEvent::Misbehaving(fault) => write!(f, "WARNING: configured to misbehave: {fault}"),
            NodeEvent::Journal(what) => write!(f, "journal: {what}"),
            NodeEvent::Restarted { view, height } => {
                write!(f, "goes on where the journal ends: executed up to height {height}, has spoken in view {view}")
            }
            NodeEvent::FetchesState { height } => {
                write!(f, "has been away for so long that the others no longer keep the blocks: fetches the state of height {height}")
            }
            NodeEvent::ReceivesState { height, chunks, held } => {
                write!(f, "the state of height {height} has {chunks} chunks, of which {held} are here already")
            }
            NodeEvent::AdoptedState { from, height } => {
                write!(f, "goes on from the others' state of height {height}, for which a quorum vouches, in place of {from}")
            }
            NodeEvent::Forgot => f.write_str(
                "WARNING: the journal is gone or was cut, and this replica may have said what it does not remember: it says nothing until \
                 a quorum has told it how far the others are. Had it never run, `journal.new` would stand beside the journal's directory",
            ),
            NodeEvent::Abstains { up_to } => {
                write!(f, "may have spoken in views up to {up_to} and says nothing in them; it takes part again in a later one")
            }
            NodeEvent::TakesPart(view) => write!(f, "takes part again from view {view} on"),
            NodeEvent::Recording(path) => write!(f, "recording to {}", path.display()),
            NodeEvent::RecordingFull => f.write_str("the recording has reached its limit, and ends"),
            NodeEvent::Connected(remote) => write!(f, "{} is connected", name(remote)),
            NodeEvent::Lost { remote, why } => write!(f, "{} is gone: {why}", name(remote)),
            NodeEvent::Unauthenticated { address, dialled: None, why } => write!(f, "no link with {address}: {why}"),
            NodeEvent::Unauthenticated { address, dialled: Some(replica), why } => {
                write!(f, "no link with replica {replica} at {address}: {why}")
            }
            NodeEvent::Undecodable { from, why } => write!(f, "replica {from} sends what is no message: {why}"),
            NodeEvent::Forged { from } => write!(f, "replica {from} passes on a bundle that its client did not sign"),
            NodeEvent::TimedOut(view) => write!(f, "view {view} timed out"),
            NodeEvent::Evidence(evidence) => evidence.fmt(f),
            NodeEvent::Stopped { height } => write!(f, "stopped as asked, having executed up to height {height}"),
        }
    }
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
            NodeEvent::Connected(Remote::Client(_) | Remote::Operator(_))
                | NodeEvent::Lost { remote: Remote::Client(_) | Remote::Operator(_), .. }
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
