//! Bundles that this replica has acknowledged, and keeps until no block can rely on the acknowledgement any more.
//!
//! An acknowledgement promises that the bundles are in the journal, and stay there until they are executed or until
//! every block that may rely on the certificate is executed. A voter relies on a certificate only in blocks up to the
//! height stated in the batch, so after that height an unused bundle may be dropped. See
//! `docs/adr/045-certified-bundles.md`.

use crate::config::Config;
use crate::data::digest_map::{DigestMap, Salt};
use quorate_types::{Bundle, Digest, Height, Quorum, ReplicaId};
use std::collections::{BTreeMap, BTreeSet};

/// Number of heights above the spreader's committed one up to which blocks may rely on a batch's certificate. Voters
/// fetch bundles that wait longer.
pub const RELIANCE_BLOCKS: u64 = 4096;
/// Maximum number of heights above this replica's committed one up to which blocks may rely on an acknowledged batch;
/// otherwise its bundles would be kept too long. Its spreader may be ahead by half of this.
pub const MAX_RELIANCE_BLOCKS: u64 = 2 * RELIANCE_BLOCKS;
/// Maximum number of bundles kept for one spreader. Further ones are not acknowledged.
const MAX_KEPT_BUNDLES: usize = 1 << 18;
/// Maximum bytes for all spreaders together, in multiples of `pool_bytes`, divided equally: as much as the bundles that
/// are not executed. Further ones are not acknowledged.
const POOLS: usize = 2;

struct One {
    bundle: Bundle,
    spreader: ReplicaId,
    until: Height,
}

/// The acknowledged bundles. All of them are in the journal.
pub struct Kept {
    bundles: DigestMap<One>,
    /// The same bundles by the height at which they may be dropped.
    by_height: BTreeSet<(Height, Digest)>,
    /// Number and bytes of the bundles of each spreader.
    used: Vec<(usize, usize)>,
    max_bytes: usize,
}

impl Kept {
    pub fn new(config: &Config, quorum: Quorum, salt: Salt) -> Kept {
        Kept {
            bundles: DigestMap::with_hasher(salt),
            by_height: BTreeSet::new(),
            used: vec![(0, 0); quorum.replicas()],
            max_bytes: config.pool_bytes.saturating_mul(POOLS) / quorum.replicas(),
        }
    }

    /// Returns whether a spreader's share allows for more bundles. It always allows for one batch.
    pub fn has_room(&self, spreader: ReplicaId, bundles: usize, bytes: usize) -> bool {
        let used = self.used[spreader.index()];
        used.0 == 0 || used.0 + bundles <= MAX_KEPT_BUNDLES && used.1 + bytes <= self.max_bytes
    }

    /// Keeps a bundle up to a height. Returns false if it is already kept that long.
    pub fn keep(&mut self, spreader: ReplicaId, until: Height, bundle: &Bundle) -> bool {
        let digest = bundle.digest();
        match self.bundles.get_mut(&digest) {
            Some(kept) if kept.until >= until => return false,
            Some(kept) => {
                self.by_height.remove(&(kept.until, digest));
                kept.until = until;
            }
            None => {
                let (bundles, bytes) = &mut self.used[spreader.index()];
                (*bundles, *bytes) = (*bundles + 1, *bytes + bundle.body().len());
                self.bundles.insert(digest, One { bundle: bundle.clone(), spreader, until });
            }
        }
        self.by_height.insert((until, digest));
        true
    }

    pub fn get(&self, digest: &Digest) -> Option<&Bundle> {
        self.bundles.get(digest).map(|kept| &kept.bundle)
    }

    pub fn contains(&self, digest: &Digest) -> bool {
        self.bundles.contains_key(digest)
    }

    /// Drops an executed bundle. The block that names it keeps it from now on.
    pub fn release(&mut self, digest: &Digest) {
        let Some(One { bundle, spreader, until }) = self.bundles.remove(digest) else { return };
        self.by_height.remove(&(until, *digest));
        let (bundles, bytes) = &mut self.used[spreader.index()];
        (*bundles, *bytes) = (*bundles - 1, *bytes - bundle.body().len());
    }

    /// Drops the bundles on which no block above `height` may rely.
    pub fn on_commit(&mut self, height: Height) {
        while let Some((_, digest)) = self.by_height.first().filter(|(until, _)| *until <= height).copied() {
            self.release(&digest);
        }
    }

    /// Returns all bundles by spreader and by the height up to which they are kept.
    pub fn all(&self) -> BTreeMap<(Height, ReplicaId), Vec<Bundle>> {
        let mut all: BTreeMap<(Height, ReplicaId), Vec<Bundle>> = BTreeMap::new();
        for kept in self.by_height.iter().map(|(_, digest)| &self.bundles[digest]) {
            all.entry((kept.until, kept.spreader)).or_default().push(kept.bundle.clone());
        }
        all
    }

    /// Checks the invariants after a step.
    pub fn invariants(&self) {
        assert_eq!(self.bundles.len(), self.by_height.len(), "each kept bundle has one height");
    }
}
