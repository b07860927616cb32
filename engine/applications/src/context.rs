//! The agreed facts of a block, for its commands.

use quorate_types::{Block, Digest, FeatureLevel, Hasher, Height, tags};

/// The block in which a command is executed. It is the same on all replicas.
///
/// The time is the proposer's clock. Before the block was certified, at least f+1 honest replicas found it at most
/// `max_clock_skew_ms` ahead of their clocks, and at most that and three view timeouts behind them. A proposer can
/// choose any time within these bounds. The time never decreases from one block to the next: a block that is earlier
/// than its predecessor gets the time of that one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockContext {
    height: Height,
    time_ms: u64,
    digest: Digest,
    level: FeatureLevel,
}

impl BlockContext {
    /// Creates the context of the block with this height, time (in milliseconds since the Unix epoch) and digest.
    pub fn new(height: Height, time_ms: u64, digest: Digest) -> BlockContext {
        BlockContext { height, time_ms, digest, level: FeatureLevel(0) }
    }

    /// Creates the context of a block that has only a height, for tests and measurements.
    pub fn untimed(height: Height) -> BlockContext {
        BlockContext::new(height, 0, Digest::ZERO)
    }

    /// Returns the same block no earlier than `least_ms`, the time of its predecessor.
    pub(crate) fn not_before(self, least_ms: u64) -> BlockContext {
        BlockContext { time_ms: self.time_ms.max(least_ms), ..self }
    }

    /// Returns the same block at a feature level.
    pub fn at_level(self, level: FeatureLevel) -> BlockContext {
        BlockContext { level, ..self }
    }

    /// Returns the height of the block.
    pub fn height(&self) -> Height {
        self.height
    }

    /// Returns the agreed time of the block, in milliseconds since the Unix epoch.
    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// Returns the feature level at which the block is executed, at most the one that the application
    /// [supports](crate::Application::supported_level). It never decreases from one block to the next.
    pub fn level(&self) -> FeatureLevel {
        self.level
    }

    /// Returns 32 bytes that are random in the sense of a hash of the block, and the same for all commands in it. Hash
    /// them together with the client and its command to get different bytes for each.
    ///
    /// The proposer of a block can compute them before it proposes, and choose among as many blocks as it can try; a
    /// faulty leader can also let its view fail instead. Never use them where a leader could gain by the outcome, as in
    /// a lottery, nor as a secret: every replica knows them.
    pub fn randomness(&self) -> [u8; 32] {
        let mut hasher = Hasher::new(tags::RANDOMNESS);
        hasher.update(&self.digest.0);
        hasher.finish().0
    }
}

/// The block as it was proposed; the executor raises its time to its predecessor's, and adds the level.
impl From<&Block> for BlockContext {
    fn from(block: &Block) -> BlockContext {
        BlockContext::new(block.height, block.time_ms, block.digest())
    }
}
