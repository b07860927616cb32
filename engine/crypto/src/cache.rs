//! Caches of verified certificates and bundles, and of created signatures.

use bytes::Bytes;
use quorate_types::{Digest, Hasher, tags};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::hash::BuildHasherDefault;

quorate_types::choice!(
    /// Whether a replica caches verified certificates.
    #[derive(Default)]
    CertificateCache, "certificate cache",
    /// Caches the last [`DEFAULT_CACHE_CERTIFICATES`].
    #[default]
    On = "on",
    /// Caches none: every certificate is verified each time it is received. For comparison only.
    Off = "off",
);

impl CertificateCache {
    /// Returns the number of cached certificates.
    pub fn certificates(self) -> usize {
        match self {
            CertificateCache::On => DEFAULT_CACHE_CERTIFICATES,
            CertificateCache::Off => 0,
        }
    }
}

/// Default number of cached verified certificates: some hundreds of views, in about 100 kB.
pub const DEFAULT_CACHE_CERTIFICATES: usize = 1024;

/// The last `capacity` values, first in first out.
struct Fifo<V> {
    capacity: usize,
    values: HashMap<Digest, V, BuildHasherDefault<DefaultHasher>>,
    order: VecDeque<Digest>,
}

impl<V> Fifo<V> {
    fn new(capacity: usize) -> Fifo<V> {
        Fifo { capacity, values: HashMap::default(), order: VecDeque::new() }
    }

    fn insert(&mut self, fingerprint: Digest, value: V) {
        if self.capacity == 0 || self.values.contains_key(&fingerprint) {
            return;
        }
        if self.order.len() == self.capacity {
            let oldest = self.order.pop_front().expect("a full cache with a capacity above 0 is not empty");
            self.values.remove(&oldest);
        }
        self.order.push_back(fingerprint);
        self.values.insert(fingerprint, value);
        assert_eq!(self.values.len(), self.order.len(), "the cache's map and queue have the same fingerprints");
    }
}

/// The most recently verified fingerprints, first in first out.
///
/// Only successes are kept: an attacker can create unlimited invalid variants, which would evict useful entries. A
/// fingerprint covers every byte, including a certificate's proof and attachments and a bundle's authenticator.
pub struct VerifiedCache(Fifo<()>);

impl VerifiedCache {
    /// Returns an empty cache of at most `capacity` fingerprints. With capacity 0 it stays empty.
    pub fn new(capacity: usize) -> VerifiedCache {
        VerifiedCache(Fifo::new(capacity))
    }

    pub fn contains(&self, fingerprint: &Digest) -> bool {
        self.0.values.contains_key(fingerprint)
    }

    /// Adds a fingerprint and evicts the oldest if the cache is full.
    pub fn insert(&mut self, fingerprint: Digest) {
        self.0.insert(fingerprint, ());
    }

    pub fn len(&self) -> usize {
        self.0.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.order.is_empty()
    }
}

/// The most recent signatures, first in first out.
pub struct SignatureCache {
    signatures: Fifo<Bytes>,
    made: u64,
}

impl SignatureCache {
    /// Returns an empty cache of at most `capacity` signatures. With capacity 0 it stays empty.
    pub fn new(capacity: usize) -> SignatureCache {
        SignatureCache { signatures: Fifo::new(capacity), made: 0 }
    }

    /// Returns the signature of a statement from the cache, or calls `sign` and caches its result.
    pub fn get_or_sign(&mut self, statement: &[u8], sign: impl FnOnce() -> Bytes) -> Bytes {
        let Ok(signature) = self.get_or_try_sign(statement, || Ok::<_, Infallible>(sign()));
        signature
    }

    /// Does the same with a function that may fail. Failures are not cached.
    ///
    /// # Errors
    /// The error of `sign`.
    pub fn get_or_try_sign<E>(
        &mut self,
        statement: &[u8],
        sign: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let mut hasher = Hasher::new(tags::SIGNED);
        hasher.update(statement);
        let fingerprint = hasher.finish();
        if let Some(kept) = self.signatures.values.get(&fingerprint) {
            return Ok(kept.clone());
        }
        let signature = sign()?;
        self.made += 1;
        self.signatures.insert(fingerprint, signature.clone());
        Ok(signature)
    }

    /// Number of signatures created, excluding cache hits.
    pub fn made(&self) -> u64 {
        self.made
    }
}
