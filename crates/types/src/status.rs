//! What a replica tells about itself: counters since its start, for operators and for the laboratory.

use crate::digest::Digest;
use crate::ids::{Height, ReplicaId, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A replica's counters. All of them only grow, so that two readings give a rate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Who reports.
    pub replica: ReplicaId,
    /// Its current view.
    pub view: View,
    /// The leader it expects in that view.
    pub leader: ReplicaId,
    /// The height of the last executed block.
    pub height: Height,
    /// Commands executed (duplicates not counted).
    pub committed_commands: u64,
    /// Blocks executed, empty ones included.
    pub committed_blocks: u64,
    /// Views that this replica gave up.
    pub view_timeouts: u64,
    /// Single signature verifications, a quorum of k counting k.
    pub verifications: u64,
    /// Bytes handed to the network, framing included.
    pub bytes_sent: u64,
    /// Messages handed to the network.
    pub messages_sent: u64,
    /// CPU time of the replica's threads, in nanoseconds.
    pub cpu_ns: u64,
    /// Time its core thread ran or waited for a processor, in nanoseconds: near wall time when it is the bottleneck.
    pub busy_ns: u64,
    /// Highest resident memory of the process, in kilobytes.
    pub peak_rss_kb: u64,
    /// Most memory that clients' links held at a time, in bytes: what was received and not served, and what was queued.
    #[serde(default)]
    pub client_memory_peak_bytes: u64,
    /// How long it has been running, in milliseconds.
    #[serde(default)]
    pub uptime_ms: u64,
    /// How many other replicas there are.
    #[serde(default)]
    pub peers: usize,
    /// The other replicas that it is connected to.
    #[serde(default)]
    pub connected: Vec<ReplicaId>,
    /// What an operator should look at, in sentences.
    #[serde(default)]
    pub attention: Vec<String>,
    /// Messages not acted on, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Proven misbehaviour, readable.
    pub evidence: Vec<String>,
    /// Rolling digest of everything executed, at sampled heights: equal histories have equal digests. Empty unless asked for.
    pub history: Vec<(Height, Digest)>,
    /// What the replica is set to. None unless the history is asked for, and from older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// What a replica is set to, by the names of its configuration's keys, as far as it matters to whoever measures the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Who orders the commands and how.
    pub protocol: String,
    /// Who leads a view.
    pub leader: String,
    /// To whom votes go in a chained protocol.
    pub votes: String,
    /// Most commands in a block.
    pub batch: u32,
    /// When a leader proposes a block that is not full.
    pub batch_policy: String,
    /// Longest wait for a fuller block under `timed`.
    pub batch_wait_ms: u64,
    /// How commands reach the replicas.
    pub dissemination: String,
    /// Time without progress after which a view is given up.
    pub view_timeout_ms: u64,
    /// How the view timeout behaves from view to view.
    pub view_duration: String,
    /// PBFT: slots above the last stable checkpoint that may be in use.
    pub window: u64,
    /// Blocks from one checkpoint to the next.
    pub checkpoint_interval: u64,
    /// PBFT: slots that the primary has in flight at most.
    pub pipeline: u64,
    /// The signature scheme of votes and certificates.
    pub scheme: String,
    /// How clients show that commands are theirs.
    pub client_authentication: String,
    /// What protects messages on the way.
    pub channel: String,
    /// What carries them.
    pub transport: String,
    /// What executes the commands.
    pub application: String,
    /// `file` or `memory`.
    pub journal: String,
    /// `always` or `never`.
    pub fsync: String,
}
