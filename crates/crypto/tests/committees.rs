//! Keys that do not fit the committee are refused, naming the replica.

use crate::common::*;
use bytes::Bytes;
use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::CompressedEdwardsY;
use quorate_crypto::{Crypto, CryptoError, Keyring, SchemeKind};
use quorate_types::{Domain, ReplicaId};
use std::sync::Arc;

const KIND: SchemeKind = SchemeKind::ED25519;

/// What setting up replica 0 says if replica 2 of four has another public key.
fn refusal(public_key: Vec<u8>) -> CryptoError {
    let mut committee = committee(KIND, 4);
    committee.members[2].public_key = public_key.into();
    Crypto::new(KIND, &committee, ReplicaId(0), key(KIND, 0), 8).err().expect("the key is refused")
}

#[test]
fn unusable_public_keys_are_named() {
    let replica = ReplicaId(2);
    let length = |found| CryptoError::PublicKeyLength { replica, scheme: KIND.name(), expected: 32, found };
    assert_eq!(refusal(vec![]), length(0));
    assert_eq!(refusal(vec![1; 33]), length(33));
    let no_point = (0u8..).map(|y| [&[y][..], &[0; 31]].concat());
    let mut no_point = no_point.filter(|y| CompressedEdwardsY::from_slice(y).unwrap().decompress().is_none());
    assert_eq!(refusal(no_point.next().unwrap()), CryptoError::PublicKeyInvalid { replica });
    for point in EIGHT_TORSION {
        assert_eq!(refusal(point.compress().to_bytes().to_vec()), CryptoError::PublicKeyWeak { replica });
    }
    let first = key(KIND, 1).public_key();
    let shared = CryptoError::PublicKeyShared { first: ReplicaId(1), second: replica };
    assert_eq!(refusal(first.to_vec()), shared);
    for torsion in EIGHT_TORSION {
        let moved = CompressedEdwardsY::from_slice(&first).unwrap().decompress().unwrap() + torsion;
        assert_eq!(refusal(moved.compress().to_bytes().to_vec()), shared);
    }
    assert!(refusal(vec![]).to_string().contains("replica 2"));
}

#[test]
fn another_replicas_private_key_is_refused() {
    let committee = committee(KIND, 4);
    let new = |me, key| Crypto::new(KIND, &committee, ReplicaId(me), key, 8).err();
    assert_eq!(new(3, key(KIND, 3)), None);
    let error = new(3, key(KIND, 2)).unwrap();
    assert!(matches!(error, CryptoError::KeyMismatch { replica: ReplicaId(3), .. }), "{error}");
    assert_eq!(new(4, key(KIND, 4)), Some(CryptoError::Stranger { replica: ReplicaId(4), members: 4 }));
    let scheme = CryptoError::Scheme { replica: ReplicaId(3), expected: KIND.name(), found: SchemeKind::NONE.name() };
    assert_eq!(new(3, key(SchemeKind::NONE, 3)), Some(scheme));
}

#[test]
fn a_scheme_without_keys_takes_none() {
    let mut committee = committee(SchemeKind::NONE, 4);
    committee.members[1].public_key = Bytes::from_static(b"key");
    let error = Keyring::new(SchemeKind::NONE, &committee).err().unwrap().to_string();
    assert!(error.contains("replica 1") && error.contains("none"), "{error}");
}

#[test]
fn replicas_of_one_process_share_a_keyring() {
    let committee = committee(KIND, 4);
    let keyring = Arc::new(Keyring::new(KIND, &committee).unwrap());
    let new = |me| Crypto::with_keyring(keyring.clone(), &committee, ReplicaId(me), key(KIND, me), 8);
    let subject = subject(Domain::Vote, 3);
    let certificate = new(0).unwrap().assemble(&subject, votes(KIND, subject, 1..4)).unwrap();
    assert_eq!(new(1).unwrap().verify_certificate(&certificate), Ok(()));
    assert!(Arc::ptr_eq(&keyring, &new(2).unwrap().keyring()));
    assert!(matches!(new(7), Err(CryptoError::Stranger { .. })));
}

#[test]
fn schemes_have_names() {
    for kind in SchemeKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(*kind));
    }
    let error = "rsa".parse::<SchemeKind>().unwrap_err().to_string();
    assert!(error.contains("`rsa`") && error.contains("ed25519, none"), "{error}");
    assert_eq!(format!("{:>8}|", SchemeKind::NONE), "    none|");
}
