//! What one peer can have a replica do.
//!
//! A replica answers questions of its peers, and a question is small. What it sends to one peer in answer, and how many signatures it
//! makes for that, is held against a budget that fills up with time, as a leaky bucket. Whoever asks more than that should wait.
//! One block is held against the limits of a block, and what waits because one peer relayed it against the peer's share of the pool.

use quorate_consensus::Config;
use quorate_consensus::malleable::{Malleable, Purpose};
use quorate_consensus::seam::Envelope;
use quorate_types::{Bundle, ReplicaId, Time};
use std::fmt;
use std::iter::Sum;

/// Bytes of answers to one peer in a second: four times what a replica grants by default.
pub const MAX_ANSWER_BYTES_PER_SECOND: u64 = 256 << 20;
/// Signatures made in answers to one peer in a second. What was signed before need not be signed again.
pub const MAX_ANSWER_SIGNATURES_PER_SECOND: u64 = 4096;
/// Bytes of the results of one block, which are held at once until the replies have left: 64 MiB, and a quarter for their lists.
pub const MAX_BLOCK_RESULT_BYTES: u64 = 80 << 20;

/// The relays of all peers together may take one part in so many of a pool.
const RELAYS_PART: usize = 2;

const NS_PER_S: u64 = 1_000_000_000;

/// Bundles, and what they come to.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Weight {
    /// How many.
    pub bundles: usize,
    /// In all of them.
    pub commands: usize,
    /// Of their bodies.
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
    /// That of one bundle.
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

/// Two leaky buckets, each by the time at which it would be empty.
#[derive(Clone, Copy, Default)]
struct Buckets {
    bytes_until: Time,
    signatures_until: Time,
}

/// Pours so much into a bucket out of which `rate` flows in a second. Whether it holds no more than a second's worth.
fn pour(until: &mut Time, now: Time, amount: u64, rate: u64) -> bool {
    let takes = u128::from(amount) * u128::from(NS_PER_S) / u128::from(rate);
    until.0 = until.0.max(now.0).saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
    until.0 - now.0 <= NS_PER_S
}

/// What each replica does for each other, for a block and for what is relayed.
pub struct Work {
    replicas: usize,
    buckets: Vec<Buckets>,
    /// What a block of several bundles may come to; how many those are does not matter.
    block: Weight,
    /// What one peer's relays may take of a pool; how many commands those are does not matter.
    share: Weight,
}

impl Work {
    /// Nobody has done anything. The bounds are those of the configuration.
    pub fn new(replicas: usize, config: &Config) -> Work {
        let parts = RELAYS_PART * replicas;
        let (bundles, bytes) = (config.pool_bundles.div_ceil(parts), config.pool_bytes / parts);
        Work {
            replicas,
            buckets: vec![Buckets::default(); replicas * replicas],
            block: Weight { bundles: usize::MAX, commands: config.batch, bytes: config.batch_bytes },
            share: Weight { bundles, commands: usize::MAX, bytes },
        }
    }

    /// A replica votes for a block or commits it. What is wrong with that, if the block holds more than one may. One bundle by itself
    /// may have as many commands as the wire allows.
    pub fn block(&self, who: ReplicaId, what: &str, holds: Weight) -> Option<String> {
        (holds.bundles > 1 && !holds.is_within(&self.block)).then(|| {
            let Weight { commands, bytes, .. } = self.block;
            format!("replica {who} {what} a block of {holds}, where {commands} commands and {bytes} bytes are allowed")
        })
    }

    /// So much waits in a replica's pool because one peer relayed it, and for no other reason. What is wrong with that, if it is more
    /// than the peer's share. One bundle by itself may be larger.
    pub fn relays(&self, who: ReplicaId, peer: ReplicaId, waits: Weight) -> Option<String> {
        (waits.bundles > 1 && !waits.is_within(&self.share)).then(|| {
            let Weight { bundles, bytes, .. } = self.share;
            let share = format!("its share is {bundles} bundles and {bytes} bytes");
            format!("replica {who} keeps {waits} that replica {peer} alone relays, and {share}")
        })
    }

    /// A replica sends bytes to one peer in answer to something; `signed` says whether it made a signature for that. What is wrong with
    /// that, if it is more than one peer may cause.
    pub fn answers(&mut self, who: ReplicaId, to: ReplicaId, now: Time, bytes: u64, signed: bool) -> Option<String> {
        let buckets = &mut self.buckets[who.index() * self.replicas + to.index()];
        if !pour(&mut buckets.bytes_until, now, bytes, MAX_ANSWER_BYTES_PER_SECOND) {
            let what = format!(
                "replica {who} answers replica {to} with more than {MAX_ANSWER_BYTES_PER_SECOND} bytes in a second"
            );
            return Some(what);
        }
        let few = pour(&mut buckets.signatures_until, now, u64::from(signed), MAX_ANSWER_SIGNATURES_PER_SECOND);
        (!few).then(|| {
            format!("replica {who} makes more than {MAX_ANSWER_SIGNATURES_PER_SECOND} signatures in a second to answer replica {to}")
        })
    }

    /// A replica has executed a block, and its results have so many bytes. What is wrong with that, if they are too many.
    pub fn results(&self, who: ReplicaId, bytes: u64) -> Option<String> {
        (bytes > MAX_BLOCK_RESULT_BYTES).then(|| {
            format!("replica {who} holds {bytes} bytes of results of one block, more than {MAX_BLOCK_RESULT_BYTES}")
        })
    }
}

/// Whether a message to one replica answers something that it asked or lacks, and is no duty of the protocol: a vote to its collector, a
/// bundle to its leader, a question.
pub fn is_answer<M: Malleable>(message: &Envelope<M>, slotted: bool) -> bool {
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
