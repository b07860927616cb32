//! A replica's status report, for operators and the laboratory.

use crate::digest::Digest;
use crate::histogram::DurationHistogram;
use crate::host_status::HostStatus;
use crate::ids::{Height, ReplicaId, View};
use crate::meter::Tallies;
use crate::stages::StageCounts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A replica's counters since its start. Counters only grow, so two readings give a rate.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    pub replica: ReplicaId,
    pub view: View,
    /// The expected leader of its current view.
    pub leader: ReplicaId,
    /// Height of the last executed block.
    pub height: Height,
    /// Executed commands, without duplicates.
    pub committed_commands: u64,
    /// Executed blocks, including empty ones.
    pub committed_blocks: u64,
    /// Number of views in which this replica timed out.
    pub view_timeouts: u64,
    /// Single signature verifications; a quorum of k counts k.
    pub verifications: u64,
    /// Genuine certificates of peers that were verified, not counting those found in the cache.
    #[serde(default)]
    pub certificates_verified: u64,
    /// Public keys added or subtracted for these verifications, in schemes with aggregates.
    #[serde(default)]
    pub key_additions: u64,
    /// Cryptographic work of the replica's own thread and of its verifier threads.
    #[serde(default)]
    pub crypto: Tallies,
    /// Costs of the stages of its work; only present if they are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<StageCounts>,
    /// Bytes passed to the network, framing included.
    pub bytes_sent: u64,
    /// Ethernet packets filled by the bytes of its TCP streams, if no two writes share one. 0 with other transports,
    /// and in older versions.
    #[serde(default)]
    pub stream_packets: u64,
    /// Messages passed to the network.
    pub messages_sent: u64,
    /// Packets passed to the network, by a transport over packets.
    #[serde(default)]
    pub packets_sent: u64,
    /// Of these, retransmissions.
    #[serde(default)]
    pub retransmissions: u64,
    /// Number of retransmission timeouts; `None` if the transport does not count them.
    #[serde(default)]
    pub retransmission_timeouts: Option<u64>,
    /// Smoothed round-trip times of the links to other replicas, in microseconds, as estimated by the transport or the
    /// kernel.
    #[serde(default)]
    pub round_trips_us: Vec<(ReplicaId, u64)>,
    /// Successful handshakes, and their total duration, in microseconds.
    #[serde(default)]
    pub handshakes: u64,
    #[serde(default)]
    pub handshakes_us: u64,
    /// CPU time of the replica's threads, in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of the threads that carry its load, by stage.
    #[serde(default)]
    pub threads: ThreadTimes,
    /// Time that its core thread ran or was runnable, in nanoseconds; close to wall time if it is the bottleneck.
    pub busy_ns: u64,
    /// Heap allocations of its core thread; 0 if they are not counted.
    #[serde(default)]
    pub allocations: u64,
    /// Bytes of these allocations.
    #[serde(default)]
    pub allocated_bytes: u64,
    /// Peak resident memory of the process, in kilobytes.
    pub peak_rss_kb: u64,
    /// Peak memory of client links, in bytes: requests received and not yet served, and queued replies.
    #[serde(default)]
    pub client_memory_peak_bytes: u64,
    #[serde(default)]
    pub uptime_ms: u64,
    /// Time since its height last grew, in milliseconds.
    #[serde(default)]
    pub height_age_ms: u64,
    /// Client bundles that it holds and that are not executed, proposed or not.
    #[serde(default)]
    pub waiting_bundles: u64,
    /// Durations of its journal's latest writes; `None` if it is in memory.
    #[serde(default)]
    pub journal_writes: Option<WriteTimes>,
    /// Whether it abstains from voting, because it may have forgotten earlier votes.
    #[serde(default)]
    pub abstains: bool,
    /// Number of other replicas.
    #[serde(default)]
    pub peers: usize,
    /// The other replicas to which it has links.
    #[serde(default)]
    pub connected: Vec<ReplicaId>,
    /// Problems that need an operator's attention, as sentences.
    #[serde(default)]
    pub attention: Vec<String>,
    /// Queues, links and latencies of the program around the replica; `None` in the simulator, and in older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Box<HostStatus>>,
    /// Number of dropped messages, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Proven misbehaviour, as sentences.
    pub evidence: Vec<String>,
    /// Contradictions that prove nothing to others, as sentences: the votes carry MACs, which the reporting replica
    /// could have created itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hearsay: Vec<String>,
    /// Rolling digest of the execution history, at sampled heights: equal histories have equal digests. Empty unless
    /// requested.
    pub history: Vec<(Height, Digest)>,
    /// Only present if the history is requested; older versions never send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// Durations of a journal's latest 1,024 writes, in microseconds.
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
    /// Duration so far of the write in progress; 0 if there is none.
    pub pending_us: u64,
    /// Durations of all writes since the start.
    pub all: DurationHistogram,
}

impl WriteTimes {
    /// Median write duration above which the disk is considered slow, in milliseconds: several rotations of a magnetic
    /// disk.
    pub const SLOW_MS: u64 = 50;
    /// Duration after which a write is considered stuck, in milliseconds.
    pub const HANGING_MS: u64 = 2_000;
    /// Minimum number of writes for a meaningful median.
    const MIN_WRITES: u64 = 16;

    /// Returns the problem of the disk, as a sentence about the replica.
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

/// CPU time of a replica's threads by their work, in nanoseconds, without short-lived threads and the journal's
/// threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadTimes {
    /// The core's thread, which also executes commands and does all work that has no separate thread.
    pub core_ns: u64,
    /// The thread that drives the network; `None` if the core's thread does.
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
