//! Checkpoints: what a quorum vouches for after certain blocks, and at which of them the state itself is kept.
//!
//! After every `interval` blocks replicas vouch for what they have executed: commands and results, by a rolling digest. Now and then,
//! when enough has been executed since to be worth the cost, the digest is that of the state itself, cut into chunks: a replica that
//! was away fetches it from others and need not execute what came before. All replicas come to the same checkpoints at which it is
//! kept, because nothing but what was executed decides.

use crate::frozen::FrozenState;
use bytes::Bytes;
use quorate_types::{Bundle, Digest, Hasher, Height, Manifest};

/// What a bundle counts besides its body.
const BUNDLE_OVERHEAD_BYTES: u64 = 256;
/// How many times `bytes_between` may be exceeded for the sake of a large state, which costs as much to keep as it is large.
const LARGE_STATE_PATIENCE: u64 = 8;

/// When checkpoints are due, and when the state is kept at one. The same on every replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointRule {
    /// Blocks from one checkpoint to the next.
    pub interval: u64,
    /// Bytes of blocks after which the state is kept at the next checkpoint.
    pub bytes_between: u64,
    /// What a block counts besides its bundles.
    pub block_bytes: u64,
}

impl CheckpointRule {
    /// That of replicas which keep so many blocks and bytes of bundles for those who lag behind: whoever begins with a state that is
    /// kept finds the blocks that follow.
    pub fn new(interval: u64, retained_blocks: usize, retained_bytes: usize) -> CheckpointRule {
        let block_bytes = (retained_bytes / retained_blocks.max(1)).max(1) as u64;
        CheckpointRule { interval, bytes_between: (retained_bytes as u64 / 2).max(1), block_bytes }
    }

    pub(crate) fn assert_valid(&self) {
        let CheckpointRule { interval, bytes_between, block_bytes } = *self;
        assert!(interval > 0 && bytes_between > 0 && block_bytes > 0, "checkpoints come now and then: {self:?}");
    }

    /// Whether there is a checkpoint after the block of a height.
    pub fn is_checkpoint(&self, height: Height) -> bool {
        height.0.is_multiple_of(self.interval)
    }

    pub(crate) fn bytes_of(&self, bundles: &[Bundle]) -> u64 {
        let bodies: usize = bundles.iter().map(|bundle| bundle.body().len()).sum();
        self.block_bytes + bodies as u64 + BUNDLE_OVERHEAD_BYTES * bundles.len() as u64
    }

    /// Bytes of blocks that are worth keeping a state of so many bytes.
    pub(crate) fn bytes_between(&self, state_bytes: usize) -> u64 {
        let most = self.bytes_between.saturating_mul(LARGE_STATE_PATIENCE);
        self.bytes_between.max((state_bytes as u64).min(most))
    }
}

/// What a replica has at a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// What a quorum vouches for.
    pub digest: Digest,
    /// The state and what it consists of, if it is kept here.
    pub kept: Option<(Manifest, Bytes)>,
}

impl Checkpoint {
    pub(crate) fn of_history(height: Height, history: Digest, frontier: Digest) -> Checkpoint {
        let mut hasher = Hasher::new(*b"qX02");
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

/// A checkpoint, or what is still to be done to have it.
#[must_use]
pub enum CheckpointTask {
    /// It is one of the history, and known.
    Done(Checkpoint),
    /// The state is kept, and has to be encoded and hashed. That takes as long as it is large, on whichever thread.
    Encode(Box<FrozenState>),
}

impl CheckpointTask {
    /// Does what is to be done.
    pub fn run(self) -> Checkpoint {
        match self {
            CheckpointTask::Done(checkpoint) => checkpoint,
            CheckpointTask::Encode(state) => Checkpoint::of_state(state.encode()),
        }
    }
}
