//! Events in the life of a node, outside the hot path.

use crate::config_file::ConfigFault;
use crate::laboratory::Fault;
use crate::log_level::LogLevel;
use quorate_consensus::Evidence;
use quorate_network::transports::{Listening, PathChange, Remote};
use quorate_types::text::escaped;
use quorate_types::{Address, Difference, Digest, Height, ReplicaId, View};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

/// Keys of a configuration that was read again, whose values differ from those in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Differences {
    /// Keys that were taken over.
    pub changed: Vec<String>,
    /// Keys that need a restart.
    pub refused: Vec<String>,
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |keys: &[String]| keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let (changed, refused) = (list(&self.changed), list(&self.refused));
        f.write_str("read its configuration again: ")?;
        match (changed.is_empty(), refused.is_empty()) {
            (true, true) => f.write_str("nothing has changed"),
            (false, true) => write!(f, "took over {changed}"),
            (true, false) => write!(f, "a restart is needed for {refused}"),
            (false, false) => write!(f, "took over {changed}; a restart is needed for {refused}"),
        }
    }
}

/// Event of interest to an operator. None occurs in the steady state of a healthy cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeEvent {
    /// The replica accepts connections.
    Listening(Listening),
    /// The replica misbehaves on purpose.
    Misbehaving(Fault),
    /// Finding about the journal.
    Journal(String),
    /// The replica continues from the end of its journal.
    Restarted { view: View, height: Height },
    /// The replica needs blocks that are no longer available, so it fetches the state from its peers.
    FetchesState { height: Height },
    /// The replica has the manifest of that state.
    ReceivesState {
        height: Height,
        chunks: u32,
        /// Chunks that are already available, from the replica's own state or an interrupted transfer.
        held: usize,
    },
    /// The replica has adopted a state from its peers.
    AdoptedState {
        /// Previous executed height.
        from: Height,
        height: Height,
    },
    /// A block was executed without a bundle that a quorum signed to be absent.
    Voided {
        /// Height of the block.
        height: Height,
        bundle: Digest,
    },
    /// The journal was lost or truncated by a repair.
    Forgot,
    /// Peers have reported their views.
    Abstains {
        /// Last view in which the replica may have voted; it does not vote up to this view.
        up_to: View,
    },
    /// A replica that had lost its journal resumes voting.
    TakesPart(View),
    /// The replica's inputs and outputs are recorded in this file.
    Recording(PathBuf),
    /// The recording has reached its size limit and ends.
    RecordingFull,
    /// A peer or a client has connected.
    Connected(Remote),
    /// A link to a peer or a client has closed.
    Lost { remote: Remote, why: String },
    /// A link's path has changed.
    Path { remote: Remote, change: PathChange },
    /// A connection failed before it was authenticated.
    Unauthenticated { address: Address, dialled: Option<ReplicaId>, why: String },
    /// A peer has different values for parameters that must be equal, so there is no link to it.
    Disagrees { peer: ReplicaId, differences: Vec<Difference> },
    /// A frame of a peer is not a valid message. Reported once per link, always counted.
    Undecodable { from: ReplicaId, why: String },
    /// A peer forwarded a bundle that its client did not sign. Reported once per link, always counted.
    Forged { from: ReplicaId },
    /// The replica timed out of this view.
    TimedOut(View),
    /// A replica has provably misbehaved.
    Evidence(Evidence),
    /// A replica has contradicted itself, but its votes prove nothing to others.
    Hearsay(Evidence),
    /// The process that signs this replica's votes does not answer.
    SignerAway(String),
    /// It answers again, and signs the messages that have waited.
    SignerBack { waiting: usize },
    /// It refuses to sign a statement that contradicts an earlier one.
    SignerRefuses(String),
    /// The configuration is valid, but a setting is inadvisable.
    ConfigWarning(ConfigFault),
    /// The configuration was read again.
    Reloaded(Differences),
    /// The configuration was read again and is invalid, so the replica keeps the old one.
    NotReloaded(String),
    /// The configuration that was read again has other levels of the log, or none.
    LogLevel(Option<LogLevel>),
    /// The replica has stopped as requested.
    Stopped { height: Height },
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
                write!(f, "resumes from its journal: executed up to height {height}, may have voted up to view {view}")
            }
            NodeEvent::FetchesState { height } => {
                write!(f, "needs blocks that its peers no longer keep: fetches the state of height {height}")
            }
            NodeEvent::ReceivesState { height, chunks, held } => {
                write!(f, "the state of height {height} has {chunks} chunks, {held} already here")
            }
            NodeEvent::AdoptedState { from, height } => {
                write!(
                    f,
                    "adopted the peers' state of height {height}, certified by a quorum, in place of its own of {from}"
                )
            }
            NodeEvent::Voided { height, bundle } => write!(
                f,
                "WARNING: block {height} was executed without its bundle {bundle}: a quorum signed that it is absent, \
                 so more replicas have lost their disks than the cluster tolerates. The clients' commands in it were \
                 not executed and may be sent again; see OPERATIONS.md"
            ),
            NodeEvent::Forgot => f.write_str(
                "WARNING: the journal is lost or was truncated by a repair, so this replica may have cast votes that \
                 it does not remember: it does not vote until a quorum has reported its views. A replica that has \
                 never run has a file `journal.new` beside its journal's directory",
            ),
            NodeEvent::Abstains { up_to } => {
                write!(f, "may have voted in views up to {up_to}, so it does not vote in them; takes part again later")
            }
            NodeEvent::TakesPart(view) => write!(f, "votes again from view {view} on"),
            NodeEvent::ConfigWarning(fault) => write!(f, "{fault}"),
            NodeEvent::Recording(path) => write!(f, "recording to {}", path.display()),
            NodeEvent::RecordingFull => f.write_str("the recording ends: it has reached its size limit"),
            NodeEvent::Connected(remote) => write!(f, "{} is connected", name(remote)),
            NodeEvent::Lost { remote, why } => write!(f, "lost the link to {}: {why}", name(remote)),
            NodeEvent::Path { remote, change } => write!(f, "{} {change}", name(remote)),
            NodeEvent::Unauthenticated { address, dialled: None, why } => write!(f, "no link to {address}: {why}"),
            NodeEvent::Unauthenticated { address, dialled: Some(replica), why } => {
                write!(f, "no link to replica {replica} at {address}: {why}")
            }
            NodeEvent::Disagrees { peer, differences } => f.write_str(&disagreement(*peer, differences)),
            NodeEvent::Undecodable { from, why } => write!(f, "replica {from} sent an invalid message: {why}"),
            NodeEvent::Forged { from } => write!(f, "replica {from} forwarded a bundle that its client did not sign"),
            NodeEvent::TimedOut(view) => write!(f, "view {view} timed out"),
            NodeEvent::Evidence(evidence) => evidence.fmt(f),
            NodeEvent::Hearsay(evidence) => f.write_str(&evidence.hearsay()),
            NodeEvent::Reloaded(differences) => differences.fmt(f),
            NodeEvent::NotReloaded(why) => {
                write!(f, "WARNING: keeps its configuration, because the file is wrong: {why}")
            }
            NodeEvent::LogLevel(Some(level)) => write!(f, "logs {level} from now on, as its configuration says"),
            NodeEvent::LogLevel(None) => f.write_str("logs as it did at its start"),
            NodeEvent::SignerAway(_) | NodeEvent::SignerBack { .. } | NodeEvent::SignerRefuses(_) => self.of_signer(f),
            NodeEvent::Stopped { height } => write!(f, "stopped on request, executed up to height {height}"),
        }
    }
}

impl NodeEvent {
    /// Writes an event of the process that signs votes; nothing for other events.
    fn of_signer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeEvent::SignerAway(why) => write!(
                f,
                "WARNING: does not vote, because its signer does not sign: {why}; help: start the signer; the replica \
                 votes again when it answers"
            ),
            NodeEvent::SignerBack { waiting } => {
                write!(f, "its signer answers again: votes, with {waiting} messages that still wait")
            }
            NodeEvent::SignerRefuses(why) => write!(
                f,
                "WARNING: its signer refuses to sign {why}; help: expected if the journal was lost; otherwise another \
                 process uses this replica's signer, or its journal was rolled back"
            ),
            _ => Ok(()),
        }
    }
}

/// Returns a sentence about a replica with a different configuration.
pub(crate) fn disagreement(peer: ReplicaId, differences: &[Difference]) -> String {
    let values: Vec<String> = differences.iter().map(ToString::to_string).collect();
    format!(
        "exchanges no messages with replica {peer}, whose configuration differs: {}; help: set the same values on all \
         replicas, while all are stopped",
        values.join("; ")
    )
}

/// Receiver of a node's events. Runs on the replica's own thread, so it must return quickly.
pub trait Observer: Send {
    fn observe(&mut self, replica: ReplicaId, event: NodeEvent);
}

impl<F: FnMut(ReplicaId, NodeEvent) + Send> Observer for F {
    fn observe(&mut self, replica: ReplicaId, event: NodeEvent) {
        self(replica, event);
    }
}

/// Observer that writes one line per event to stderr, except when clients connect or disconnect.
pub struct StderrObserver;

impl Observer for StderrObserver {
    fn observe(&mut self, replica: ReplicaId, event: NodeEvent) {
        let of_a_client = matches!(
            event,
            NodeEvent::Connected(Remote::Client(_) | Remote::Operator(_))
                | NodeEvent::Lost { remote: Remote::Client(_) | Remote::Operator(_), .. }
                | NodeEvent::Path { remote: Remote::Client(_) | Remote::Operator(_), .. }
        );
        if !of_a_client {
            // A closed stderr is no reason to stop a replica.
            let _ = writeln!(std::io::stderr().lock(), "replica {replica}: {}", escaped(&event.to_string()));
        }
    }
}

/// Observer that ignores every event.
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&mut self, _replica: ReplicaId, _event: NodeEvent) {}
}
