//! The table of large values, compared with a map.

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_consensus::data::digest_map::Salt;
use quorate_consensus::data::digest_table::{DigestTable, Keyed};
use quorate_types::Digest;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Debug)]
struct Value(Digest, u64);

impl Keyed for Value {
    fn key(&self) -> Digest {
        self.0
    }
}

fn digest(number: u64) -> Digest {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(number / 3).to_le_bytes());
    bytes[24..].copy_from_slice(&number.to_le_bytes());
    Digest(bytes)
}

proptest! {
    #[test]
    fn a_table_has_what_a_map_has(salt: u64, numbers in vec(0u64..90, 0..300)) {
        let mut table = DigestTable::new(Salt(salt));
        let mut map = BTreeMap::new();
        for (number, count) in numbers.into_iter().zip(0..) {
            let key = digest(number);
            let value = Value(key, count);
            match map.remove(&key) {
                Some((slot, before)) => {
                    prop_assert_eq!(table.find(&key), Some(slot));
                    prop_assert_eq!(table.remove(&key), Some(before));
                    prop_assert_eq!(table.at(slot), None);
                }
                None => {
                    prop_assert_eq!(table.remove(&key), None);
                    map.insert(key, (table.insert(value.clone()), value));
                }
            }
            prop_assert_eq!(table.len(), map.len());
        }
        for key in (0..90).map(digest) {
            prop_assert_eq!(table.get(&key), map.get(&key).map(|(_, value)| value));
            prop_assert_eq!(table.find(&key), map.get(&key).map(|(slot, _)| *slot));
        }
    }
}

/// Otherwise one insertion in many would move all values, and everything else would wait for it.
#[test]
fn values_stay_where_they_are_as_the_table_grows() {
    let mut table = DigestTable::new(Salt(7));
    let first = table.insert(Value(digest(0), 0));
    let address = std::ptr::from_ref(table.at(first).expect("it was just inserted"));
    for number in 1..20_000 {
        table.insert(Value(digest(number), number));
    }
    assert_eq!(std::ptr::from_ref(table.at(first).expect("nothing was removed")), address);
}

#[test]
fn slots_are_used_again() {
    let mut table = DigestTable::new(Salt(7));
    let mut slots: Vec<u32> = (0..100).map(|number| table.insert(Value(digest(number), number))).collect();
    for number in 100..20_000 {
        let before = table.find(&digest(number - 100)).expect("it is here");
        table.remove_at(before);
        slots.push(table.insert(Value(digest(number), number)));
    }
    slots.sort();
    slots.dedup();
    assert_eq!(slots.len(), 100);
}
