//! What is committed: in order, without gaps, and for how long it is kept for those who lag behind.

use crate::mutants::{Mutant, Mutation};
use quorate_types::{Block, Height};
use std::collections::VecDeque;
use std::sync::Arc;

/// The committed blocks that are still kept, oldest first: the older ones without their bundles, for the election of leaders only.
pub struct Ledger {
    bare: VecDeque<Arc<Block>>,
    whole: VecDeque<(Arc<Block>, usize)>,
    bytes: usize,
    most_blocks: usize,
    most_bytes: usize,
    least_blocks: usize,
    height: Height,
    pub(crate) mutation: Mutation,
}

impl Ledger {
    /// Nothing but genesis is committed. Blocks are kept up to `most_blocks` with `most_bytes` of bundles, and without their bundles
    /// up to `least_blocks` in any case.
    pub fn new(most_blocks: usize, most_bytes: usize, least_blocks: usize) -> Self {
        let (bare, whole) = (VecDeque::new(), VecDeque::new());
        Ledger {
            bare,
            whole,
            bytes: 0,
            most_blocks,
            most_bytes,
            least_blocks,
            height: Height(0),
            mutation: Mutation::default(),
        }
    }

    /// The height of the last committed block.
    pub fn height(&self) -> Height {
        self.height
    }

    /// All up to a height is committed, and nothing of it is kept.
    pub fn begin_at(&mut self, height: Height) {
        assert!(self.bare.is_empty() && self.whole.is_empty(), "a ledger begins once");
        self.height = height;
    }

    /// Keeps a block without its bundles that was committed before the ledger began.
    pub fn recall(&mut self, block: Arc<Block>) {
        assert!(self.whole.is_empty() && block.height <= self.height, "what is older comes first");
        self.bare.push_back(block);
    }

    /// The last committed blocks, as many as the election of leaders needs, oldest first.
    pub fn latest(&self) -> impl Iterator<Item = &Arc<Block>> {
        let whole = self.whole.iter().map(|(block, _)| block);
        let excess = (self.bare.len() + self.whole.len()).saturating_sub(self.least_blocks);
        self.bare.iter().chain(whole).skip(excess)
    }

    /// Appends the block of the next height, whose bundles have so many bytes.
    pub fn append(&mut self, block: Arc<Block>, bytes: usize) {
        let gap = self.mutation.is(Mutant::CommitsOverMissing);
        assert!(gap || block.height == self.height.next(), "nothing is committed across a gap");
        self.height = block.height;
        self.bytes += bytes;
        self.whole.push_back((block, bytes));
    }

    /// The oldest block with bundles, if more are kept than the limits allow: its bundles are to go. The last committed one keeps
    /// them.
    pub fn strip(&mut self) -> Option<Arc<Block>> {
        let over = self.whole.len() > self.most_blocks || self.bytes > self.most_bytes;
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
        let enough = self.bare.len() + self.whole.len() > self.least_blocks;
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
