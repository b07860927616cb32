//! What others are given of blocks and bundles that they lack.

use super::Store;
use quorate_types::{Block, Bundle, Digest, Height};
use std::sync::Arc;

/// Most bytes of payloads and proofs in one answer to a fetch of blocks that is not a single one.
const MAX_BLOCKS_ANSWER_BYTES: usize = 8 << 20;
/// Most bytes in one answer to a fetch of bundles that is not a single one: what else the link and its ends have to do waits as long.
const MAX_BUNDLES_ANSWER_BYTES: usize = 1 << 20;

impl Store {
    /// The answer to a request for a block and its ancestors.
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

    /// The answer to a request for bundles: as many as fit.
    pub fn bundles(&self, digests: &[Digest]) -> Vec<Bundle> {
        let mut bytes = 0;
        let held = digests.iter().filter_map(|digest| self.pool.get(digest).cloned());
        let fitting = held.take_while(|bundle| {
            let fits = bytes == 0 || bytes + bundle.body().len() <= MAX_BUNDLES_ANSWER_BYTES;
            bytes += bundle.body().len();
            fits
        });
        fitting.collect()
    }
}

/// About what a block takes on the wire.
pub(crate) fn bytes_of(block: &Block) -> usize {
    block.justify.proof.len() + block.payload.len() * size_of::<Digest>()
}
