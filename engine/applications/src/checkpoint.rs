//! Checkpoints: digests that replicas vote on at regular heights. Some checkpoints also keep the state.
//!
//! Every `interval` blocks the replicas vote on a rolling digest of the executed commands and results. When they have
//! executed enough to justify the cost, they vote on the digest of the state itself, split into chunks, and keep the
//! state: a replica that was away fetches it instead of executing the earlier blocks. All replicas keep the state at
//! the same checkpoints, because the choice depends only on the executed blocks.

use crate::frozen::FrozenState;
use bytes::Bytes;
use quorate_types::{Bundle, Digest, Hasher, Height, Manifest, tags};

/// Bytes counted per bundle in addition to its body.
const BUNDLE_OVERHEAD_BYTES: u64 = 256;
/// Maximum multiple of `bytes_between` by which a large state, which is expensive to keep, may delay its checkpoint.
const LARGE_STATE_PATIENCE: u64 = 8;

/// Schedule of checkpoints, equal on every replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointRule {
    /// Blocks from one checkpoint to the next.
    pub interval: u64,
    /// Bytes of blocks after which the next checkpoint keeps the state.
    pub bytes_between: u64,
    /// Bytes counted per block in addition to its bundles.
    pub block_bytes: u64,
}

impl CheckpointRule {
    /// Creates the rule for replicas that retain this many blocks and bytes of bundles, so that a replica that fetches
    /// a kept state can still obtain the blocks after it.
    pub fn new(interval: u64, retained_blocks: usize, retained_bytes: usize) -> CheckpointRule {
        let block_bytes = (retained_bytes / retained_blocks.max(1)).max(1) as u64;
        CheckpointRule { interval, bytes_between: (retained_bytes as u64 / 2).max(1), block_bytes }
    }

    pub(crate) fn assert_valid(&self) {
        let CheckpointRule { interval, bytes_between, block_bytes } = *self;
        assert!(interval > 0 && bytes_between > 0 && block_bytes > 0, "a checkpoint rule must be positive: {self:?}");
    }

    /// Returns whether there is a checkpoint after the block at this height.
    pub fn is_checkpoint(&self, height: Height) -> bool {
        height.0.is_multiple_of(self.interval)
    }

    pub(crate) fn bytes_of(&self, bundles: &[Bundle]) -> u64 {
        let bodies: usize = bundles.iter().map(|bundle| bundle.body().len()).sum();
        self.block_bytes + bodies as u64 + BUNDLE_OVERHEAD_BYTES * bundles.len() as u64
    }

    /// Returns the bytes of blocks that justify the cost of keeping a state of this size.
    pub(crate) fn bytes_between(&self, state_bytes: usize) -> u64 {
        let most = self.bytes_between.saturating_mul(LARGE_STATE_PATIENCE);
        self.bytes_between.max((state_bytes as u64).min(most))
    }
}

/// A replica's result at a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// The digest to vote on.
    pub digest: Digest,
    /// The state and its manifest, if this checkpoint keeps the state.
    pub kept: Option<(Manifest, Bytes)>,
}

impl Checkpoint {
    pub(crate) fn of_history(height: Height, history: Digest, frontier: Digest) -> Checkpoint {
        let mut hasher = Hasher::new(tags::CHECKPOINT);
        hasher.update(&height.0.to_le_bytes());
        hasher.update(&history.0);
        hasher.update(&frontier.0);
        Checkpoint { digest: hasher.finish(), kept: None }
    }

    fn of_state(state: Bytes) -> Checkpoint {
        let manifest = Manifest::of(&state);
        Checkpoint { digest: manifest.digest(), kept: Some((manifest, state)) }
    }
}

/// Checkpoint, or the work to complete it.
#[must_use]
pub enum CheckpointTask {
    Done(Checkpoint),
    /// The state must still be encoded and hashed, on any thread. The time is proportional to its size.
    Encode(Box<FrozenState>),
}

impl CheckpointTask {
    pub fn run(self) -> Checkpoint {
        match self {
            CheckpointTask::Done(checkpoint) => checkpoint,
            CheckpointTask::Encode(state) => Checkpoint::of_state(state.encode()),
        }
    }
}
