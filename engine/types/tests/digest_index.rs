//! The index from digests to slots, compared with an equivalent map.

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_types::Digest;
use quorate_types::digest_index::DigestIndex;
use std::collections::BTreeMap;

/// Returns one of many digests that share their first eight bytes, and thus their hash.
fn digest(number: u8) -> Digest {
    let mut bytes = [number / 4; 32];
    bytes[31] = number;
    Digest(bytes)
}

proptest! {
    #[test]
    fn what_was_inserted_and_not_removed_is_found(salt: u64, numbers in vec(any::<u8>(), 0..400)) {
        let mut index = DigestIndex::new(salt);
        let mut slots: Vec<Digest> = Vec::new();
        let mut expected: BTreeMap<Digest, u32> = BTreeMap::new();
        for number in numbers {
            let digest = digest(number);
            match expected.remove(&digest) {
                Some(slot) => index.remove(&digest, slot),
                None => {
                    let slot = slots.len() as u32;
                    slots.push(digest);
                    index.insert(&digest, slot);
                    expected.insert(digest, slot);
                }
            }
            prop_assert_eq!(index.len(), expected.len());
        }
        for digest in (0..=u8::MAX).map(digest) {
            let found = index.find(&digest, |slot| slots[slot as usize] == digest);
            prop_assert_eq!(found, expected.get(&digest).copied());
        }
        index.clear();
        prop_assert!(index.is_empty());
        for digest in expected.keys() {
            prop_assert_eq!(index.find(digest, |_| true), None);
        }
    }
}

#[test]
#[should_panic(expected = "only digests in the index are removed")]
fn removing_what_is_not_there_is_our_own_bug() {
    let mut index = DigestIndex::new(1);
    index.insert(&digest(1), 7);
    index.remove(&digest(1), 8);
}
