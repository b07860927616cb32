//! What is committed: in order, without gaps, and for how long it is kept for those who lag behind.

use quorate_types::{Block, Height};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many times the limits may be exceeded for the sake of those who fetch a state, and then the blocks above it.
pub const MAX_OVER_LIMITS: usize = 10;

/// The committed blocks that are still kept, oldest first: the older ones without their bundles, for the election of leaders only.
pub struct Ledger {
    bare: VecDeque<Arc<Block>>,
    whole: VecDeque<(Arc<Block>, usize)>,
    bytes: usize,
    max_blocks: usize,
    max_bytes: usize,
    min_blocks: usize,
    height: Height,
    /// Whoever begins with a state that is kept, or with genesis, needs the blocks above this height.
    needed_above: Height,
}

impl Ledger {
    /// Nothing but genesis is committed. Blocks are kept up to `max_blocks` with `max_bytes` of bundles, and without their bundles
    /// up to `min_blocks` in any case.
    pub fn new(max_blocks: usize, max_bytes: usize, min_blocks: usize) -> Self {
        let (bare, whole) = (VecDeque::new(), VecDeque::new());
        Ledger { bare, whole, bytes: 0, max_blocks, max_bytes, min_blocks, height: Height(0), needed_above: Height(0) }
    }

    /// The height of the last committed block.
    pub fn height(&self) -> Height {
        self.height
    }

    /// All up to a height is committed, and nothing of it is kept.
    pub fn begin_at(&mut self, height: Height) {
        assert!(height >= self.height, "what is committed stays committed");
        self.bare.clear();
        self.whole.clear();
        (self.height, self.bytes) = (height, 0);
    }

    /// Above which height every committed block is kept with its bundles.
    pub fn whole_above(&self) -> Height {
        Height(self.height.0 - self.whole.len() as u64)
    }

    /// Blocks above this height are kept beyond the limits, up to [`MAX_OVER_LIMITS`] times as many.
    pub fn keep_above(&mut self, height: Height) {
        self.needed_above = height;
    }

    /// Keeps a block without its bundles that was committed before the ledger began.
    pub fn recall(&mut self, block: Arc<Block>) {
        assert!(self.whole.is_empty() && block.height <= self.height, "what is older comes first");
        self.bare.push_back(block);
    }

    /// The last committed blocks, as many as the election of leaders needs, oldest first.
    pub fn latest(&self) -> impl Iterator<Item = &Arc<Block>> {
        let whole = self.whole.iter().map(|(block, _)| block);
        let excess = (self.bare.len() + self.whole.len()).saturating_sub(self.min_blocks);
        self.bare.iter().chain(whole).skip(excess)
    }

    /// Appends the block of the next height, whose bundles have so many bytes.
    pub fn append(&mut self, block: Arc<Block>, bytes: usize) {
        let gap = bug!(CommitsOverMissing);
        assert!(gap || block.height == self.height.next(), "nothing is committed across a gap");
        self.height = block.height;
        self.bytes += bytes;
        self.whole.push_back((block, bytes));
    }

    /// The oldest block with bundles, if more are kept than the limits allow: its bundles are to go. The last committed one keeps
    /// them.
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

    /// The oldest block, if its bundles are gone and nothing else needs it: it is to go itself.
    pub fn retire(&mut self) -> Option<Arc<Block>> {
        let enough = self.bare.len() + self.whole.len() > self.min_blocks;
        if enough { self.bare.pop_front() } else { None }
    }

    /// Holds after every step.
    pub fn invariants(&self) {
        assert!(
            self.whole.back().is_none_or(|(block, _)| block.height == self.height),
            "the last one kept is the last committed"
        );
    }
}
