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
}
