//! What was found valid: certificates, and clients' bundles.

use quorate_types::Digest;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasherDefault;

/// Verified certificates to remember unless configured otherwise: some hundreds of views, in about 100 kB.
pub const DEFAULT_CACHE_CERTIFICATES: usize = 1024;

/// The fingerprints of what was verified last, first in first out.
///
/// Only successes are kept: what is refused may be sent in endlessly many variants, and remembering them would push the useful
/// ones out. A fingerprint covers every byte: a certificate's proof and attachments too, and a bundle's authenticator.
pub struct VerifiedCache {
    capacity: usize,
    known: HashSet<Digest, BuildHasherDefault<DefaultHasher>>,
    order: VecDeque<Digest>,
}

impl VerifiedCache {
    /// A cache of at most `capacity` fingerprints; of none, if that is 0.
    pub fn new(capacity: usize) -> VerifiedCache {
        VerifiedCache { capacity, known: HashSet::default(), order: VecDeque::new() }
    }

    /// Whether something of that fingerprint was verified lately.
    pub fn contains(&self, fingerprint: &Digest) -> bool {
        self.known.contains(fingerprint)
    }

    /// Remembers what was verified, and forgets the oldest where there is no room.
    pub fn insert(&mut self, fingerprint: Digest) {
        if self.capacity == 0 || self.known.contains(&fingerprint) {
            return;
        }
        if self.order.len() == self.capacity {
            let oldest = self.order.pop_front().expect("a full cache of a capacity above zero holds something");
            self.known.remove(&oldest);
        }
        self.order.push_back(fingerprint);
        self.known.insert(fingerprint);
        assert_eq!(self.known.len(), self.order.len(), "the cache's set and queue hold the same fingerprints");
    }

    /// How many fingerprints it holds.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
