//! State of a replica's host, as a part of its [status](crate::Status): queues, links, latencies, state transfer.

use crate::histogram::DurationHistogram;
use crate::ids::{Height, ReplicaId};
use crate::level::LevelStatus;
use serde::{Deserialize, Serialize};

/// State of a replica's host. Counters are since its start.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostStatus {
    /// Version of the program.
    pub version: String,
    /// Number of replicas that form a quorum, this one included.
    pub quorum: usize,
    /// Maximum number of faulty replicas that the cluster tolerates.
    pub faults: usize,
    /// Greatest height that a certificate or a decision has shown to this replica; at least its own.
    pub known_height: Height,
    /// Why this replica timed out of views.
    pub timeouts: TimeoutReasons,
    /// Iterations of its event loop.
    pub iterations: u64,
    pub links: LinkCounts,
    pub queues: Queues,
    pub latencies: Latencies,
    /// Last checkpoint whose state a quorum has certified; `None` before the first since the start.
    pub checkpoint: Option<CheckpointAge>,
    /// Feature levels of the application; `None` in older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelStatus>,
    /// State that it receives from its peers, if any.
    pub transfer: Option<TransferProgress>,
    /// Blocks executed without a bundle, because a quorum signed that the bundle is absent.
    pub voided_bundles: u64,
    /// Distance of its clock from the last block's time, in milliseconds, if this replica refused that block and a
    /// quorum accepted it.
    pub clock_error_ms: Option<i64>,
    pub wire: WireStatus,
    /// The process that signs its votes; `None` if it signs them itself.
    pub signer: Option<SignerStatus>,
}

/// The process that signs a replica's votes, as the replica sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SignerStatus {
    /// Whether it has answered the last request.
    pub connected: bool,
    /// Time since it stopped to answer, in milliseconds.
    pub away_ms: u64,
    /// Why it does not answer; empty if it does.
    pub why_away: String,
    /// Messages that wait for their signatures.
    pub waiting_messages: u64,
    /// Statements that it has signed, without repetitions.
    pub signed: u64,
    /// Statements that it refused to sign, because they contradict others.
    pub refused: u64,
}

impl SignerStatus {
    /// Returns the problem of the signer, as a sentence about the replica.
    pub fn attention(&self) -> Option<String> {
        (!self.connected).then(|| {
            let (seconds, waiting) = (self.away_ms / 1_000, self.waiting_messages);
            format!(
                "does not vote: its signer has not answered for {seconds} s, and {waiting} messages wait for it: {}",
                self.why_away
            )
        })
    }
}

/// Versions of the wire format.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WireStatus {
    /// Oldest version that this replica speaks; 0 in releases before version 7.
    pub oldest: u8,
    /// Newest version that its configuration allows.
    pub newest: u8,
    /// Links to the other replicas.
    pub links: Vec<LinkVersion>,
}

/// Version of a link to another replica.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkVersion {
    pub peer: ReplicaId,
    /// Wire version of the link.
    pub version: u8,
    /// Version of the peer's program, as the peer claims; `None` if the link's version does not tell it.
    pub program: Option<String>,
    /// Newest wire version that this program speaks.
    pub supports: Option<u8>,
}

/// Why a replica timed out of views: the number of views for each reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeoutReasons {
    /// It was not connected to the leader.
    pub leader_unreachable: u64,
    /// It was connected to the leader, or led itself, but there was no proposal.
    pub no_proposal: u64,
    /// There was a proposal, but no quorum agreed in time.
    pub no_quorum: u64,
}

/// Traffic and links, by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkCounts {
    pub clients: u64,
    pub operators: u64,
    pub bytes_received: u64,
    pub messages_received: u64,
    /// System calls that sent data.
    pub write_calls: u64,
}

/// Lengths of the queues in which work waits, now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Queues {
    /// Commands of this replica's clients that are received and not executed.
    pub commands: u64,
    /// Bytes of their bundles.
    pub bytes: u64,
    /// Work that admission control lets wait, in bytes; 0 if it is off.
    pub admission_limit_bytes: u64,
    /// Blocks that wait for missing parts.
    pub incomplete_blocks: u64,
    /// Messages that wait for the journal.
    pub held_messages: u64,
}

/// Histograms of the times that requests and blocks take, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latencies {
    /// From the receipt of a client's commands to their execution, sampled every few milliseconds.
    pub request: DurationHistogram,
    /// From this replica's proposal of a block to the block's execution.
    pub commit: DurationHistogram,
    /// Execution of a block.
    pub execution: DurationHistogram,
}

/// The last checkpoint that a quorum certified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckpointAge {
    pub height: Height,
    /// Time since it was certified here, in milliseconds.
    pub age_ms: u64,
}

/// Progress of a state transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TransferProgress {
    pub height: Height,
    pub chunks: u64,
    /// Of these, the chunks that are here.
    pub received: u64,
}
