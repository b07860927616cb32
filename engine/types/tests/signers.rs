//! The signer set compared with a `BTreeSet`.

use proptest::prelude::*;
use quorate_types::limits::MAX_REPLICAS;
use quorate_types::{ReplicaId, Signers};
use std::collections::BTreeSet;

fn replicas() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(0..MAX_REPLICAS as u16, 0..300)
}

fn set(replicas: &[u16]) -> Signers {
    replicas.iter().copied().map(ReplicaId).collect()
}

proptest! {
    #[test]
    fn the_signer_set_matches_the_model(replicas in replicas()) {
        let (mut signers, mut model) = (Signers::empty(), BTreeSet::new());
        for replica in replicas {
            prop_assert_eq!(signers.insert(ReplicaId(replica)), model.insert(ReplicaId(replica)));
            prop_assert!(!signers.insert(ReplicaId(replica)));
        }
        prop_assert_eq!(signers.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!((signers.len(), signers.is_empty()), (model.len(), model.is_empty()));
        prop_assert_eq!(signers.highest(), model.last().copied());
        for replica in 0..=u16::MAX {
            prop_assert_eq!(signers.contains(ReplicaId(replica)), model.contains(&ReplicaId(replica)));
        }
        prop_assert_eq!(signers.iter().collect::<Signers>(), signers);
    }

    #[test]
    fn sets_are_equal_exactly_if_their_members_are(
        one in replicas(),
        two in replicas(),
        order in any::<prop::sample::Index>(),
    ) {
        let members = |replicas: &[u16]| replicas.iter().copied().collect::<BTreeSet<_>>();
        prop_assert_eq!(set(&one) == set(&two), members(&one) == members(&two));
        let mut rotated = one.clone();
        if !rotated.is_empty() {
            rotated.rotate_left(order.index(one.len()));
        }
        prop_assert_eq!(set(&one), set(&rotated));
    }

    #[test]
    fn union_matches_the_model(one in replicas(), two in replicas(), three in replicas()) {
        let union = |sets: &[&[u16]]| {
            let mut union = Signers::empty();
            sets.iter().for_each(|replicas| union.union(&set(replicas)));
            union
        };
        prop_assert_eq!(union(&[&one, &two]), set(&[&one[..], &two].concat()));
        prop_assert_eq!(union(&[&one, &two]), union(&[&two, &one]));
        prop_assert_eq!(union(&[&one, &one]), set(&one));
        let mut left = union(&[&one, &two]);
        left.union(&set(&three));
        let mut right = set(&one);
        right.union(&union(&[&two, &three]));
        prop_assert_eq!(left, right);
    }
}

#[test]
fn the_full_set_has_every_replica() {
    let everybody: Signers = (0..MAX_REPLICAS as u16).map(ReplicaId).collect();
    assert_eq!((everybody.len(), everybody.highest()), (MAX_REPLICAS, Some(ReplicaId(MAX_REPLICAS as u16 - 1))));
}

#[test]
#[should_panic(expected = "outside every committee")]
fn inserting_an_id_above_the_maximum_panics() {
    Signers::empty().insert(ReplicaId(MAX_REPLICAS as u16));
}
