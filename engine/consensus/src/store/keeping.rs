//! Bundles that this replica has acknowledged. They are in the journal, and replace bundles that the pool has
//! dropped.

use super::Store;
use crate::data::batches::Batch;
use crate::data::kept::Kept;
use crate::data::pool::Need;
use quorate_types::{Block, Bundle, Digest, Height, ReplicaId};

impl Store {
    /// Returns the bundles that must be journaled with a block: all but those that are missing or already in the
    /// journal as acknowledged.
    pub fn bundles_to_journal(&self, block: &Block) -> impl Iterator<Item = Bundle> {
        let bundles = block.payload.iter().filter(|digest| !self.kept.contains(digest));
        bundles.filter_map(|digest| {
            let bundle = self.pool.get(digest).cloned();
            // A certified bundle may still be on its way. It is journaled when it is executed.
            assert!(bundle.is_some() || self.pool.is_absent(digest), "a block's bundles are kept as long as the block");
            bundle
        })
    }

    /// Keeps the bundles of a batch up to the height that the batch states. Returns those that the journal must hold
    /// before the acknowledgement, or `None` if the spreader has used up its space here.
    pub fn keep(&mut self, batch: &Batch) -> Option<Vec<Bundle>> {
        let Store { pool, kept, .. } = self;
        // No future block may rely on the certificate.
        if batch.until() <= self.ledger.height() || bug!(AnyCertificate) {
            return Some(Vec::new());
        }
        let held: Vec<&Bundle> = batch.entries().iter().filter_map(|entry| pool.get(&entry.bundle)).collect();
        let bytes = held.iter().map(|bundle| bundle.body().len()).sum();
        if !kept.has_room(batch.spreader(), held.len(), bytes) {
            return None;
        }
        let new = held.into_iter().filter(|bundle| kept.keep(batch.spreader(), batch.until(), bundle));
        Some(new.cloned().collect())
    }

    /// Restores acknowledged bundles from the journal.
    pub fn recall_kept(&mut self, spreader: ReplicaId, until: Height, bundles: Vec<Bundle>) {
        if spreader.index() >= self.quorum.replicas() {
            return;
        }
        for bundle in bundles {
            self.kept.keep(spreader, until, &bundle);
            if self.pool.is_absent(&bundle.digest()) {
                self.pool.offer(bundle, Need::Certified);
            }
        }
    }

    /// Returns acknowledged bundles that the pool is missing to the pool. Returns whether there are any.
    pub(super) fn restore_kept(&mut self, missing: &[Digest]) -> bool {
        let Store { pool, kept, .. } = self;
        let found = missing.iter().filter_map(|bundle| kept.get(bundle));
        found.map(|bundle| pool.offer(bundle.clone(), Need::Certified)).count() > 0
    }

    /// Returns the acknowledged bundles, each with its spreader and the height up to which it is kept.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }
}
