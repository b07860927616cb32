//! Work that one peer can cause a replica.
//!
//! Replicas answer their peers' requests, which are small. The bytes of the answers to one peer, and the signatures
//! created for them, are therefore checked against leaky buckets: a peer that requests more should have to wait. Blocks
//! are checked against the limits of a block, and bundles that wait because one peer relayed them against the peer's
//! share of the pool.

use quorate_consensus::Config;
use quorate_consensus::seam::Envelope;
use quorate_consensus::seam::Message;
use quorate_consensus::seam::Purpose;
use quorate_types::{Bundle, ReplicaId, Time};
use std::fmt;
use std::iter::Sum;

/// Maximum bytes of answers to one peer: four times the default budget of a replica.
pub const MAX_ANSWER_BYTES_PER_SECOND: u64 = 256 << 20;
/// Maximum number of new signatures in answers to one peer. Repeated statements need no new signature.
pub const MAX_ANSWER_SIGNATURES_PER_SECOND: u64 = 4096;
/// Maximum bytes of a block's results, which stay in memory until the replies are sent: 64 MiB, and a quarter more for
/// their lists.
pub const MAX_BLOCK_RESULT_BYTES: u64 = 80 << 20;

/// Divisor: all peers' relays together may occupy 1/N of a pool; if replicas spread bundles, the whole pool.
const RELAYS_PART: usize = 2;

const NS_PER_S: u64 = 1_000_000_000;

/// Total size of some bundles.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Weight {
    pub bundles: usize,
    pub commands: usize,
    /// Bytes of the bodies.
    pub bytes: usize,
}

impl Sum for Weight {
    fn sum<I: Iterator<Item = Weight>>(weights: I) -> Weight {
        weights.fold(Weight::default(), |sum, weight| Weight {
            bundles: sum.bundles + weight.bundles,
            commands: sum.commands + weight.commands,
            bytes: sum.bytes + weight.bytes,
        })
    }
}

impl Weight {
    pub fn of(bundle: &Bundle) -> Weight {
        Weight { bundles: 1, commands: bundle.len(), bytes: bundle.body().len() }
    }

    fn is_within(&self, most: &Weight) -> bool {
        self.bundles <= most.bundles && self.commands <= most.commands && self.bytes <= most.bytes
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bundles with {} commands and {} bytes", self.bundles, self.commands, self.bytes)
    }
}

/// Two leaky buckets, each represented by the time at which it will be empty.
#[derive(Clone, Copy, Default)]
struct Buckets {
    bytes_until: Time,
    signatures_until: Time,
}

/// Adds `amount` to a bucket that drains `rate` per second. Returns whether it holds at most one second's worth.
fn pour(until: &mut Time, now: Time, amount: u64, rate: u64) -> bool {
    let takes = u128::from(amount) * u128::from(NS_PER_S) / u128::from(rate);
    until.0 = until.0.max(now.0).saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
    until.0 - now.0 <= NS_PER_S
}

/// Work of each replica for each peer, for blocks and for relayed bundles.
pub struct Work {
    replicas: usize,
    buckets: Vec<Buckets>,
    /// Limits of a block with several bundles. The number of bundles is unlimited.
    block: Weight,
    /// Limits of one peer's relays in a pool. The number of commands is unlimited.
    share: Weight,
}

impl Work {
    pub fn new(replicas: usize, config: &Config) -> Work {
        let part = if config.dissemination.is_spread() { 1 } else { RELAYS_PART };
        let parts = part * replicas;
        let (bundles, bytes) = (config.pool_bundles.div_ceil(parts), config.pool_bytes / parts);
        Work {
            replicas,
            buckets: vec![Buckets::default(); replicas * replicas],
            block: Weight { bundles: usize::MAX, commands: config.batch.max_commands(), bytes: config.batch_bytes },
            share: Weight { bundles, commands: usize::MAX, bytes },
        }
    }

    /// Checks the size of a block that a replica votes for or commits. Returns the violation. A single bundle may have
    /// as many commands as the wire allows.
    pub fn block(&self, who: ReplicaId, what: &str, holds: Weight) -> Option<String> {
        (holds.bundles > 1 && !holds.is_within(&self.block)).then(|| {
            let Weight { commands, bytes, .. } = self.block;
            format!("replica {who} {what} a block of {holds}, limit {commands} commands and {bytes} bytes")
        })
    }

    /// Returns whether bundles fit into the share of a peer's relays in a pool.
    pub fn fits_share(&self, waits: &Weight) -> bool {
        waits.bundles <= 1 || waits.is_within(&self.share)
    }

    /// Checks the bundles that wait in a replica's pool only because one peer relayed them against the peer's share.
    /// Returns the violation. A single bundle may be larger.
    pub fn relays(&self, who: ReplicaId, peer: ReplicaId, waits: Weight) -> Option<String> {
        (!self.fits_share(&waits)).then(|| {
            let Weight { bundles, bytes, .. } = self.share;
            let share = format!("whose share is {bundles} bundles and {bytes} bytes");
            format!("replica {who} keeps {waits} that only replica {peer} relays, {share}")
        })
    }

    /// Checks an answer of a replica to one peer against the peer's budget. `signed` is set if the replica created a
    /// new signature for it. Returns the violation.
    pub fn answers(&mut self, who: ReplicaId, to: ReplicaId, now: Time, bytes: u64, signed: bool) -> Option<String> {
        let buckets = &mut self.buckets[who.index() * self.replicas + to.index()];
        if !pour(&mut buckets.bytes_until, now, bytes, MAX_ANSWER_BYTES_PER_SECOND) {
            return Some(format!(
                "replica {who} answers replica {to} with more than {MAX_ANSWER_BYTES_PER_SECOND} bytes per second"
            ));
        }
        let few = pour(&mut buckets.signatures_until, now, u64::from(signed), MAX_ANSWER_SIGNATURES_PER_SECOND);
        (!few).then(|| {
            format!(
                "replica {who} makes more than {MAX_ANSWER_SIGNATURES_PER_SECOND} signatures per second to answer \
                 replica {to}"
            )
        })
    }

    /// Checks the size of a block's results. Returns the violation.
    pub fn results(&self, who: ReplicaId, bytes: u64) -> Option<String> {
        (bytes > MAX_BLOCK_RESULT_BYTES).then(|| {
            format!("replica {who} holds {bytes} bytes of results of one block, more than {MAX_BLOCK_RESULT_BYTES}")
        })
    }
}

/// Returns whether a message to a single replica answers its request or need. Messages that the protocol requires
/// anyway are not answers: votes to their collector, bundles to the leader, and requests.
pub fn is_answer<M: Message>(message: &Envelope<M>, slotted: bool) -> bool {
    match message {
        Envelope::Blocks(_)
        | Envelope::Bundles(_)
        | Envelope::StatePart { .. }
        | Envelope::Offer { .. }
        | Envelope::Standing { .. } => true,
        Envelope::Protocol(message) => slotted || message.purpose() != Purpose::Vote,
        _ => false,
    }
}
