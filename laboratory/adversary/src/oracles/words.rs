//! Hash tables whose keys are already hashes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Table whose keys are hashes. Its order must not affect anything.
pub type Words<V> = HashMap<u64, V, BuildHasherDefault<Plain>>;

/// Hasher that returns the key unchanged.
#[derive(Default)]
pub struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("the keys are words");
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}
