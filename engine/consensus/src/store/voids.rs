//! Bundles of final blocks that a quorum has signed to be absent.

use super::Store;
use quorate_types::{Block, Bundle, Certificate, Digest, Height, Subject};
use std::sync::Arc;

/// Maximum number of absence certificates in the answer to a request for bundles.
const MAX_VOIDS_SHOWN: usize = 64;

impl Store {
    /// Returns whether execution waits for the block of an absence statement and the bundle is missing here too.
    pub fn lacks(&self, subject: &Subject) -> bool {
        let about = |block: &&Arc<Block>| (block.height, block.digest()) == (subject.height, subject.digest);
        let position = usize::try_from(subject.view.0).unwrap_or(usize::MAX);
        self.stuck_block().filter(about).is_some_and(|block| {
            let bundle = block.payload.get(position);
            bundle.is_some_and(|bundle| self.pool.is_absent(bundle)) && !self.absence.is_void(block.height, position)
        })
    }

    /// Returns the bundle that a statement declares absent, if this replica has it.
    pub fn bundle_at(&self, subject: &Subject) -> Option<&Bundle> {
        let bundle = self.named_by(subject)?;
        self.pool.get(&bundle).or_else(|| self.kept.get(&bundle))
    }

    fn named_by(&self, subject: &Subject) -> Option<Digest> {
        let block = self.tree.get(&subject.digest).filter(|block| block.height == subject.height)?;
        block.payload.get(usize::try_from(subject.view.0).ok()?).copied()
    }

    /// Restores the fact that this replica signed that a bundle is absent, from the journal.
    pub fn recall_absent(&mut self, subject: &Subject) {
        if subject.height > self.committed()
            && let Some(bundle) = self.named_by(subject)
        {
            self.absence.sign(*subject, bundle);
        }
    }

    /// Returns the absence certificates for these blocks.
    pub fn voids_of(&self, blocks: &[Arc<Block>]) -> Vec<Certificate> {
        if !self.absence.has_any() {
            return Vec::new();
        }
        blocks.iter().flat_map(|block| self.absence.certificates(block.height)).cloned().collect()
    }

    /// Returns the absence certificates for these bundles.
    pub fn voids_among(&self, bundles: &[Digest]) -> Vec<Certificate> {
        let is_wanted = |certificate: &&Certificate| {
            self.named_by(&certificate.subject).is_some_and(|bundle| bundles.contains(&bundle))
        };
        self.absence.certificates_above(Height(0)).filter(is_wanted).take(MAX_VOIDS_SHOWN).cloned().collect()
    }

    /// Executes the bundles of a block, except the void ones, and returns them. Void bundles that this replica has
    /// become pending again.
    pub(super) fn execute(&mut self, block: &Block) -> Vec<Bundle> {
        let Store { pool, absence, .. } = self;
        let execute = |(position, bundle): (usize, &Digest)| {
            if !absence.is_void(block.height, position) {
                return Some(pool.on_execution(bundle));
            }
            absence.execute(block.height, *bundle);
            pool.on_void(bundle);
            None
        };
        block.payload.iter().enumerate().filter_map(execute).collect()
    }

    /// Releases the bundles of an executed block that is no longer kept whole.
    pub(super) fn release_bundles(&mut self, block: &Block) {
        let Store { pool, absence, .. } = self;
        let executed = |(position, _): &(usize, &Digest)| !absence.is_void(block.height, *position);
        block.payload.iter().enumerate().filter(executed).for_each(|(_, bundle)| pool.release(bundle));
        absence.forget_up_to(block.height);
    }
}
