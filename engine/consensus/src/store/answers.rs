//! Answers to peers that fetch blocks and bundles.

use super::Store;
use quorate_types::{Block, Bundle, Digest, Height};
use std::sync::Arc;

/// Maximum bytes of payloads and proofs in an answer with more than one block.
const MAX_BLOCKS_ANSWER_BYTES: usize = 8 << 20;
/// Maximum bytes of an answer with more than one bundle. It is small because everything behind the answer waits on the
/// link.
const MAX_BUNDLES_ANSWER_BYTES: usize = 1 << 20;

impl Store {
    /// Answers a request for a block and its ancestors, newest first.
    pub fn blocks(&self, digest: Digest, above: Height, most: usize) -> Vec<Arc<Block>> {
        let (mut blocks, mut bytes) = (Vec::new(), 0);
        let mut at = self.tree.get(&digest).or_else(|| self.waiting.get(&digest).map(|waiting| &waiting.block));
        while let Some(block) = at.filter(|block| block.height > above && blocks.len() < most) {
            bytes += bytes_of(block);
            if bytes > MAX_BLOCKS_ANSWER_BYTES && !blocks.is_empty() {
                break;
            }
            blocks.push(block.clone());
            at = self.tree.parent(block);
        }
        blocks
    }

    /// Answers a request for bundles with as many bundles as fit.
    pub fn bundles(&self, digests: &[Digest]) -> Vec<Bundle> {
        let mut bytes = 0;
        let held = digests.iter().filter_map(|digest| self.pool.get(digest).or_else(|| self.kept.get(digest)).cloned());
        let fitting = held.take_while(|bundle| {
            let fits = bytes == 0 || bytes + bundle.body().len() <= MAX_BUNDLES_ANSWER_BYTES;
            bytes += bundle.body().len();
            fits
        });
        fitting.collect()
    }
}

/// Returns the approximate size of a block on the wire, in bytes.
pub(crate) fn bytes_of(block: &Block) -> usize {
    block.justify.proof.len() + block.payload.len() * size_of::<Digest>() + block.covers().wire_bytes()
}
