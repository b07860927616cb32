//! A replica's report about itself, for operators and the laboratory.

use crate::digest::Digest;
use crate::ids::{Height, ReplicaId, View};
use crate::meter::Tallies;
use crate::stages::StageCounts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A replica's counters since its start. Counters only grow, so two readings give a rate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    pub replica: ReplicaId,
    pub view: View,
    /// The leader it expects in its current view.
    pub leader: ReplicaId,
    /// Height of the last executed block.
    pub height: Height,
    /// Commands executed (duplicates not counted).
    pub committed_commands: u64,
    /// Blocks executed, empty ones included.
    pub committed_blocks: u64,
    /// Views in which this replica timed out.
    pub view_timeouts: u64,
    /// Single signature verifications, a quorum of k counting k.
    pub verifications: u64,
    /// Genuine certificates of peers verified; those found in the cache do not count.
    #[serde(default)]
    pub certificates_verified: u64,
    /// Public keys added or subtracted to verify them, in schemes with aggregates.
    #[serde(default)]
    pub key_additions: u64,
    /// Cryptography of the replica's own thread and of those that verify signatures for it.
    #[serde(default)]
    pub crypto: Tallies,
    /// What the stages of its work took; only present if they are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<StageCounts>,
    /// Bytes handed to the network, framing included.
    pub bytes_sent: u64,
    /// Packets of Ethernet that the bytes of its TCP streams fill, if no two writes share one. 0 with other transports,
    /// and in older versions.
    #[serde(default)]
    pub stream_packets: u64,
    /// Messages handed to the network.
    pub messages_sent: u64,
    /// Packets handed to the network, by a transport over packets.
    #[serde(default)]
    pub packets_sent: u64,
    /// Of these, packets sent again.
    #[serde(default)]
    pub retransmissions: u64,
    /// Times that a retransmission timeout was over; `None` if the transport does not count them.
    #[serde(default)]
    pub retransmission_timeouts: Option<u64>,
    /// Smoothed round trips of the links to other replicas, in microseconds, as the transport or the kernel estimates
    /// them.
    #[serde(default)]
    pub round_trips_us: Vec<(ReplicaId, u64)>,
    /// Handshakes that ended well, and how long they took together, in microseconds.
    #[serde(default)]
    pub handshakes: u64,
    #[serde(default)]
    pub handshakes_us: u64,
    /// CPU time of the replica's threads, in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of the threads that carry its load, by their stage.
    #[serde(default)]
    pub threads: ThreadTimes,
    /// Time that its core thread ran or waited for a processor, in nanoseconds; near wall time if it is the bottleneck.
    pub busy_ns: u64,
    /// Heap allocations of its core thread; 0 if they are not counted.
    #[serde(default)]
    pub allocations: u64,
    /// Bytes of these allocations.
    #[serde(default)]
    pub allocated_bytes: u64,
    /// Highest resident memory of the process, in kilobytes.
    pub peak_rss_kb: u64,
    /// Peak memory of clients' links, in bytes: requests received and not yet served, and replies queued.
    #[serde(default)]
    pub client_memory_peak_bytes: u64,
    #[serde(default)]
    pub uptime_ms: u64,
    /// Time since its height last grew, in milliseconds.
    #[serde(default)]
    pub height_age_ms: u64,
    /// Bundles of clients that it has and that are not executed, proposed or not.
    #[serde(default)]
    pub waiting_bundles: u64,
    /// How long its journal's latest writes took; `None` if it is in memory.
    #[serde(default)]
    pub journal_writes: Option<WriteTimes>,
    /// Whether it does not vote, because it may not remember earlier votes.
    #[serde(default)]
    pub abstains: bool,
    /// Number of other replicas.
    #[serde(default)]
    pub peers: usize,
    /// The other replicas that it has links to.
    #[serde(default)]
    pub connected: Vec<ReplicaId>,
    /// Problems that an operator should look at, in sentences.
    #[serde(default)]
    pub attention: Vec<String>,
    /// Dropped messages, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Proven misbehaviour, in sentences.
    pub evidence: Vec<String>,
    /// Contradictions that prove nothing to others, in sentences: the votes carry MACs, which the reporting replica
    /// could have made itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hearsay: Vec<String>,
    /// Rolling digest of everything executed, at sampled heights: equal histories have equal digests. Empty unless
    /// requested.
    pub history: Vec<(Height, Digest)>,
    /// Only present if the history is requested; older versions never send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// How long the writes of a journal took: the latest 1,024, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WriteTimes {
    /// Number of writes since the start.
    pub writes: u64,
    /// Median.
    pub p50_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    pub max_us: u64,
    /// Time since the write under way began; 0 if there is none.
    pub pending_us: u64,
}

impl WriteTimes {
    /// Time that the median write may take before the disk counts as slow, in milliseconds: several rotations of a
    /// magnetic disk.
    pub const SLOW_MS: u64 = 50;
    /// Time after which a write counts as hanging, in milliseconds.
    pub const HANGING_MS: u64 = 2_000;
    /// Number of writes from which on a median says something.
    const MIN_WRITES: u64 = 16;

    /// Returns what is wrong with the disk, as a sentence about the replica.
    pub fn attention(&self) -> Option<String> {
        let ms = |us: u64| us as f64 / 1e3;
        if self.pending_us >= Self::HANGING_MS * 1_000 {
            let seconds = self.pending_us / 1_000_000;
            return Some(format!("waits for its disk: a write of the journal has not ended for {seconds} s"));
        }
        let is_slow = self.writes >= Self::MIN_WRITES && self.p50_us >= Self::SLOW_MS * 1_000;
        is_slow.then(|| {
            let (p50, p99, max) = (ms(self.p50_us), ms(self.p99_us), ms(self.max_us));
            format!("has a slow disk: a write of the journal takes {p50:.0} ms (median; p99 {p99:.0}, max {max:.0} ms)")
        })
    }
}

/// CPU time of a replica's threads by what they do, in nanoseconds. Short-lived threads and those of the journal are not
/// here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadTimes {
    /// The thread of the core and of execution, which also does what has no thread of its own.
    pub core_ns: u64,
    /// The thread that drives the network; `None` if that is the core's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_ns: Option<u64>,
    /// All threads that verify signatures.
    pub verifiers_ns: u64,
    /// Number of these threads.
    pub verifiers: u16,
}

/// A replica's settings that affect measurements, by the tables and keys of its configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(pub serde_json::Value);
