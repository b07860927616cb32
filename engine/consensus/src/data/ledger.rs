//! Committed blocks: in order, without gaps, and kept for a while for lagging replicas.

use quorate_types::{Block, Height};
use std::collections::VecDeque;
use std::sync::Arc;

/// Factor by which the limits may be exceeded to retain blocks above a kept state, for replicas that fetch it.
pub const MAX_OVER_LIMITS: usize = 10;

/// The kept committed blocks, oldest first. Older ones have no bundles and serve only leader election.
pub struct Ledger {
    bare: VecDeque<Arc<Block>>,
    whole: VecDeque<(Arc<Block>, usize)>,
    bytes: usize,
    max_blocks: usize,
    max_bytes: usize,
    min_blocks: usize,
    height: Height,
    /// A replica that starts from a kept state, or from genesis, needs the blocks above this height.
    needed_above: Height,
}

impl Ledger {
    /// Creates an empty ledger. It keeps up to `max_blocks` blocks with up to `max_bytes` of bundles, and at least the
    /// last `min_blocks` blocks without their bundles.
    pub fn new(max_blocks: usize, max_bytes: usize, min_blocks: usize) -> Self {
        let (bare, whole) = (VecDeque::new(), VecDeque::new());
        Ledger { bare, whole, bytes: 0, max_blocks, max_bytes, min_blocks, height: Height(0), needed_above: Height(0) }
    }

    /// Returns the height of the last committed block.
    pub fn height(&self) -> Height {
        self.height
    }

    /// Starts from a committed height, keeping none of the blocks up to it.
    pub fn begin_at(&mut self, height: Height) {
        assert!(height >= self.height, "the committed height never decreases");
        self.bare.clear();
        self.whole.clear();
        (self.height, self.bytes) = (height, 0);
    }

    /// Returns the height above which every committed block is kept with its bundles.
    pub fn whole_above(&self) -> Height {
        Height(self.height.0 - self.whole.len() as u64)
    }

    /// Retains the blocks above this height beyond the limits, up to [`MAX_OVER_LIMITS`] times as many.
    pub fn keep_above(&mut self, height: Height) {
        self.needed_above = height;
    }

    /// Keeps a block, without its bundles, that was committed before the ledger starts.
    pub fn recall(&mut self, block: Arc<Block>) {
        assert!(
            self.whole.is_empty() && block.height <= self.height,
            "blocks below the start are recalled before any is appended"
        );
        self.bare.push_back(block);
    }

    /// Returns the last committed blocks, as many as leader election uses, oldest first.
    pub fn latest(&self) -> impl Iterator<Item = &Arc<Block>> {
        let whole = self.whole.iter().map(|(block, _)| block);
        let excess = (self.bare.len() + self.whole.len()).saturating_sub(self.min_blocks);
        self.bare.iter().chain(whole).skip(excess)
    }

    /// Appends the block of the next height, whose bundles have `bytes` bytes.
    pub fn append(&mut self, block: Arc<Block>, bytes: usize) {
        assert_eq!(block.height, self.height.next(), "blocks are committed at consecutive heights");
        self.height = block.height;
        self.bytes += bytes;
        self.whole.push_back((block, bytes));
    }

    /// Returns the oldest block with bundles if the limits are exceeded: its bundles must be dropped. The last
    /// committed block keeps its bundles.
    pub fn strip(&mut self) -> Option<Arc<Block>> {
        let oldest = self.whole.front()?.0.height;
        let times = if oldest > self.needed_above { MAX_OVER_LIMITS } else { 1 };
        let over = self.whole.len() > self.max_blocks * times || self.bytes > self.max_bytes * times;
        if !over || self.whole.len() < 2 {
            return None;
        }
        let (block, bytes) = self.whole.pop_front()?;
        self.bytes -= bytes;
        self.bare.push_back(block.clone());
        Some(block)
    }

    /// Returns the oldest block if its bundles are dropped and nothing else needs it: it must be removed.
    pub fn retire(&mut self) -> Option<Arc<Block>> {
        let enough = self.bare.len() + self.whole.len() > self.min_blocks;
        if enough { self.bare.pop_front() } else { None }
    }

    /// Checks the invariants after a step.
    pub fn invariants(&self) {
        assert!(
            self.whole.back().is_none_or(|(block, _)| block.height == self.height),
            "the last block kept is the last committed"
        );
    }
}
