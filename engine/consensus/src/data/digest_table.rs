//! Table from digests to large values, which never move.

use crate::data::digest_map::Salt;
use quorate_types::Digest;
use quorate_types::digest_index::DigestIndex;

/// Number of values per memory chunk. A table grows chunk by chunk, and never copies its values.
const CHUNK: usize = 1024;

/// Value that contains its own key.
pub trait Keyed {
    fn key(&self) -> Digest;
}

/// Table from digests to values. Each value has a slot, which it keeps until it is removed; then the slot is reused.
pub struct DigestTable<V> {
    index: DigestIndex,
    chunks: Vec<Box<[Option<V>]>>,
    /// The free slots. The last freed one is reused first, because its memory is still in the processor's caches.
    free: Vec<u32>,
}

impl<V: Keyed> DigestTable<V> {
    pub fn new(salt: Salt) -> DigestTable<V> {
        DigestTable { index: DigestIndex::new(salt.0), chunks: Vec::new(), free: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns the slot of a value.
    #[inline]
    pub fn find(&self, key: &Digest) -> Option<u32> {
        self.index.find(key, |slot| self.at(slot).is_some_and(|value| value.key() == *key))
    }

    /// Returns the value in a slot, if there is one.
    #[inline]
    pub fn at(&self, slot: u32) -> Option<&V> {
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK].as_ref()
    }

    #[inline]
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut V> {
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK].as_mut()
    }

    #[inline]
    pub fn get(&self, key: &Digest) -> Option<&V> {
        self.at(self.find(key)?)
    }

    #[inline]
    pub fn get_mut(&mut self, key: &Digest) -> Option<&mut V> {
        self.at_mut(self.find(key)?)
    }

    pub fn contains(&self, key: &Digest) -> bool {
        self.find(key).is_some()
    }

    /// Prefetches into the CPU caches the index entries of keys that are about to be looked up.
    pub fn warm(&self, keys: impl IntoIterator<Item = Digest>) {
        self.index.warm(keys);
    }

    /// Adds a value, whose key must not be in the table. Returns its slot.
    pub fn insert(&mut self, value: V) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            let first = self.chunks.len() * CHUNK;
            self.chunks.push(std::iter::repeat_with(|| None).take(CHUNK).collect());
            let end = u32::try_from(first + CHUNK).expect("a table has fewer than 2^32 values");
            self.free.extend((first as u32 + 1..end).rev());
            first as u32
        });
        self.index.insert(&value.key(), slot);
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK] = Some(value);
        slot
    }

    /// Removes the value at a slot.
    pub fn remove_at(&mut self, slot: u32) -> Option<V> {
        let value = self.chunks[slot as usize / CHUNK][slot as usize % CHUNK].take()?;
        self.index.remove(&value.key(), slot);
        self.free.push(slot);
        Some(value)
    }

    pub fn remove(&mut self, key: &Digest) -> Option<V> {
        self.remove_at(self.find(key)?)
    }

    /// Removes all values, and frees their memory.
    pub fn clear(&mut self) {
        self.index.clear();
        self.chunks.clear();
        self.free.clear();
    }
}
