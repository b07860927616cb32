//! What was found valid, certificates and clients' bundles, and what was signed.

use bytes::Bytes;
use quorate_types::{Digest, Hasher};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
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

/// The signatures of what was signed last, first in first out.
pub struct SignatureCache {
    capacity: usize,
    known: HashMap<Digest, Bytes, BuildHasherDefault<DefaultHasher>>,
    order: VecDeque<Digest>,
    made: u64,
}

impl SignatureCache {
    /// A cache of at most `capacity` signatures; of none, if that is 0.
    pub fn new(capacity: usize) -> SignatureCache {
        SignatureCache { capacity, known: HashMap::default(), order: VecDeque::new(), made: 0 }
    }

    /// The signature of a statement, which `sign` makes if it is not kept.
    pub fn get_or_sign(&mut self, statement: &[u8], sign: impl FnOnce() -> Bytes) -> Bytes {
        let mut hasher = Hasher::new(*b"qN01");
        hasher.update(statement);
        let fingerprint = hasher.finish();
        if let Some(kept) = self.known.get(&fingerprint) {
            return kept.clone();
        }
        self.made += 1;
        let signature = sign();
        if self.capacity > 0 {
            if self.order.len() == self.capacity {
                let oldest = self.order.pop_front().expect("a full cache of a capacity above zero holds something");
                self.known.remove(&oldest);
            }
            self.order.push_back(fingerprint);
            self.known.insert(fingerprint, signature.clone());
        }
        signature
    }

    /// How many signatures were made.
    pub fn made(&self) -> u64 {
        self.made
    }
}
