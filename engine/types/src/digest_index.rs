//! Index from digests to slots in the owner's memory, at eight bytes per digest.
//!
//! A replica holds hundreds of thousands of bundles, far more than fit in the processor's caches, and looks each up
//! several times. In a hash table with the values in its buckets, most of these lookups wait for memory, and
//! occasionally an insertion moves the whole table, which takes tens of milliseconds. The buckets here hold only 32
//! bits of a digest's hash and a slot, so most of them stay in the caches, and moving them takes a millisecond at most.
//!
//! The index uses linear probing. A removal moves later buckets back instead of leaving a tombstone, so a table with
//! many insertions and removals never has to be rebuilt.

use crate::digest::Digest;

/// Marks an empty bucket; no slot has this number. It is not zero, because a new zeroed table occupies no memory until
/// it is written: each page would then be mapped twice while the table fills, first for reading and then for writing.
const EMPTY: u64 = u64::MAX;
const MIN_BUCKETS: usize = 16;
/// Maximum load factor, in eighths.
const MAX_EIGHTHS: usize = 5;

/// Index from digests to slots, numbered by its owner. A secret salt keeps attackers from choosing digests that
/// collide.
pub struct DigestIndex {
    /// The hash in the upper half, the slot in the lower; or [`EMPTY`].
    buckets: Vec<u64>,
    len: usize,
    salt: u64,
}

impl DigestIndex {
    pub fn new(salt: u64) -> DigestIndex {
        DigestIndex { buckets: vec![EMPTY; MIN_BUCKETS], len: 0, salt }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the slot of a digest, if `is_here` confirms one of the slots with the same hash.
    #[inline]
    pub fn find(&self, digest: &Digest, is_here: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = self.hash(digest);
        let mut at = self.home(hash);
        loop {
            let bucket = self.buckets[at];
            if bucket == EMPTY {
                return None;
            }
            if bucket >> 32 == hash && is_here(slot(bucket)) {
                return Some(slot(bucket));
            }
            at = self.after(at);
        }
    }

    /// Adds a digest, which must not be in the index, with its slot, which must be below `u32::MAX`.
    #[inline]
    pub fn insert(&mut self, digest: &Digest, slot: u32) {
        assert!(slot < u32::MAX, "slots have 32 bits, less one");
        if (self.len + 1) * 8 > self.buckets.len() * MAX_EIGHTHS {
            self.grow();
        }
        self.len += 1;
        self.put(self.hash(digest) << 32 | u64::from(slot));
    }

    /// Removes a digest, which must be in the index with this slot.
    #[inline]
    pub fn remove(&mut self, digest: &Digest, slot: u32) {
        let gone = self.hash(digest) << 32 | u64::from(slot);
        let mut hole = self.home(gone >> 32);
        while self.buckets[hole] != gone {
            assert!(self.buckets[hole] != EMPTY, "only digests in the index are removed");
            hole = self.after(hole);
        }
        let mut at = self.after(hole);
        while self.buckets[at] != EMPTY {
            // A bucket may move back to the hole unless the hole is before its home.
            let home = self.home(self.buckets[at] >> 32);
            if self.distance(home, at) >= self.distance(hole, at) {
                self.buckets[hole] = self.buckets[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.buckets[hole] = EMPTY;
        self.len -= 1;
    }

    /// Prefetches the buckets of digests that are about to be looked up into the processor's caches. These loads are
    /// independent and overlap, whereas successive lookups would each wait for memory.
    pub fn warm(&self, digests: impl IntoIterator<Item = Digest>) {
        let bucket = |digest: Digest| self.buckets[self.home(self.hash(&digest))];
        std::hint::black_box(digests.into_iter().fold(0, |sum, digest| sum ^ bucket(digest)));
    }

    pub fn clear(&mut self) {
        self.buckets.fill(EMPTY);
        self.len = 0;
    }

    fn put(&mut self, bucket: u64) {
        let mut at = self.home(bucket >> 32);
        while self.buckets[at] != EMPTY {
            at = self.after(at);
        }
        self.buckets[at] = bucket;
    }

    #[cold]
    fn grow(&mut self) {
        let wider = vec![EMPTY; self.buckets.len() * 2];
        for bucket in std::mem::replace(&mut self.buckets, wider).into_iter().filter(|bucket| *bucket != EMPTY) {
            self.put(bucket);
        }
    }

    /// Returns 32 bits that depend on the salt and the first eight bytes of the digest, which is itself a hash.
    fn hash(&self, digest: &Digest) -> u64 {
        let product = u128::from(digest.prefix() ^ self.salt) * 0x9e37_79b9_7f4a_7c15;
        ((product >> 64) as u64 ^ product as u64) >> 32
    }

    /// Returns the first bucket for a hash. The number of buckets is a power of two.
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.buckets.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.buckets.len() - 1)
    }
}

fn slot(bucket: u64) -> u32 {
    bucket as u32
}
