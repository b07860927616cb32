//! Unlinked blocks whose slot went to another block.

use super::Store;
use quorate_types::{Block, Digest};
use std::sync::Arc;

impl Store {
    /// Sets aside an unlinked block that was not chosen for its slot but may be chosen later. Its bundles become
    /// pending again.
    pub fn set_aside(&mut self, digest: &Digest) {
        let uncommitted = |block: &&Arc<Block>| block.height > self.committed();
        if let Some(block) = self.tree.get(digest).filter(uncommitted).cloned() {
            self.set_block_aside(&block);
        }
    }

    pub(super) fn set_block_aside(&mut self, block: &Block) {
        if block.is_unlinked() && self.aside.insert(block.digest(), ()).is_none() {
            block.payload.iter().rev().for_each(|bundle| self.pool.set_aside(bundle));
        }
    }

    /// Restores an unlinked block that was set aside and is now chosen.
    pub fn take_up(&mut self, digest: &Digest) {
        if self.aside.remove(digest).is_some()
            && let Some(block) = self.tree.get(digest)
        {
            block.payload.iter().for_each(|bundle| self.pool.taken_up(bundle));
        }
    }

    /// Discards an uncommitted, unlinked block that can never be chosen. Its bundles become pending again.
    pub fn discard(&mut self, digest: &Digest) {
        self.set_aside(digest);
        if let Some(block) = self.tree.remove(digest) {
            self.aside.remove(digest);
            block.payload.iter().for_each(|bundle| self.pool.on_drop(bundle));
        }
        self.wants.remove_block(digest);
        if self.waiting.remove(digest).is_some() {
            self.forget_overtaken();
        }
    }
}
