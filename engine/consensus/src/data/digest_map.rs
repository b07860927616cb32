//! Hash tables keyed by digest. A digest is already a hash, so eight of its bytes, mixed with a salt chosen by the
//! host, suffice. The salt keeps strangers from choosing bundles that collide. Nothing depends on the iteration order.

use quorate_types::Digest;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// Salt of a table, which creates its hasher.
#[derive(Clone, Copy, Debug)]
pub struct Salt(pub u64);

/// Hasher that folds the first eight bytes of its input into one word.
pub struct Fold(u64);

impl BuildHasher for Salt {
    type Hasher = Fold;
    fn build_hasher(&self) -> Fold {
        Fold(self.0)
    }
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let Some(word) = bytes.first_chunk::<8>() else { return };
        let product = u128::from(u64::from_le_bytes(*word) ^ self.0) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_usize(&mut self, _length: usize) {}
}

/// Hash table from digests to values.
pub type DigestMap<V> = HashMap<Digest, V, Salt>;
