//! Changes of the feature level: one encoding, and statements that differ in every part.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_types::level::statement;
use quorate_types::{Digest, EpochId, FeatureLevel, Height, LevelChange, LevelSupport, ReplicaId};

fn change() -> impl Strategy<Value = LevelChange> {
    let support = (any::<u64>(), vec(any::<u8>(), 0..70))
        .prop_map(|(until, signature)| LevelSupport { until: Height(until), signature: signature.into() });
    (any::<u16>(), vec(support, 0..5))
        .prop_map(|(level, supports)| LevelChange { level: FeatureLevel(level), supports })
}

proptest! {
    #[test]
    fn a_change_has_one_encoding(
        change in change(),
        bit in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let payload = change.to_payload();
        prop_assert!(LevelChange::is_in(&payload));
        prop_assert_eq!(LevelChange::from_payload(&payload), Ok(change));
        prop_assert!(LevelChange::from_payload(&payload[..cut.index(payload.len())]).is_err());
        prop_assert!(LevelChange::from_payload(&[&payload[..], &[0]].concat()).is_err());
        let (mut flipped, bit) = (payload.to_vec(), bit.index(payload.len() * 8));
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(other) = LevelChange::from_payload(&flipped) {
            prop_assert_eq!(other.to_payload(), Bytes::from(flipped));
        }
    }

    #[test]
    fn other_bytes_are_refused(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(LevelChange::from_payload(&bytes).is_err());
    }
}

#[test]
fn statements_differ_in_each_part() {
    let of = |epoch: u8, replica, level, until| {
        statement(&EpochId(Digest([epoch; 32])), ReplicaId(replica), FeatureLevel(level), Height(until))
    };
    let all = [of(1, 1, 1, 1), of(2, 1, 1, 1), of(1, 2, 1, 1), of(1, 1, 2, 1), of(1, 1, 1, 2), of(1, 256, 1, 1)];
    for (at, one) in all.iter().enumerate() {
        assert!(one.starts_with(b"quorate level 1 "));
        assert!(all[at + 1..].iter().all(|other| one != other));
    }
}
