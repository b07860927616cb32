//! Keys that do not fit the committee are refused with an error that names the replica.

use crate::common::*;
use bytes::Bytes;
use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::CompressedEdwardsY;
use quorate_crypto::{Crypto, CryptoError, Identities, Identity, KeyFault, KeyRole, Keyring, SchemeKind};
use quorate_testkit::schemes::AGGREGATE;
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{Committee, Domain, ReplicaId};
use std::sync::Arc;

const KIND: SchemeKind = SchemeKind::ED25519;
const ROLES: [KeyRole; 2] = [KeyRole::Identity, KeyRole::Voting];

/// Returns the error for a committee of four in which replica 2 has this public key.
fn refusal(role: KeyRole, public_key: Vec<u8>) -> KeyFault {
    let mut committee = committee(KIND, 4);
    let member = &mut committee.members[2];
    let refused = match role {
        KeyRole::Identity => {
            member.identity_key = public_key.into();
            Identities::new(&committee).err()
        }
        KeyRole::Voting => {
            member.voting_key = public_key.into();
            Crypto::new(KIND, &committee, ReplicaId(0), key(KIND, 0), 8).err()
        }
    };
    match refused.expect("the key is refused") {
        CryptoError::PublicKey { replica: ReplicaId(2), role: of, fault } if of == role => fault,
        other => panic!("{other}"),
    }
}

#[test]
fn unusable_public_keys_are_named() {
    for role in ROLES {
        let refusal = |key| refusal(role, key);
        let length = |found| KeyFault::Length { scheme: KIND.name(), expected: 32, found };
        assert_eq!(refusal(vec![]), length(0));
        assert_eq!(refusal(vec![1; 33]), length(33));
        let no_point = (0u8..).map(|y| [&[y][..], &[0; 31]].concat());
        let mut no_point = no_point.filter(|y| CompressedEdwardsY::from_slice(y).unwrap().decompress().is_none());
        assert_eq!(refusal(no_point.next().unwrap()), KeyFault::NotAPoint);
        for point in EIGHT_TORSION {
            assert_eq!(refusal(point.compress().to_bytes().to_vec()), KeyFault::Weak);
        }
        let first = match role {
            KeyRole::Identity => keys(KIND, 1).identity.public_key(),
            KeyRole::Voting => keys(KIND, 1).voting.public_key(),
        };
        let shared = KeyFault::Shared { replica: ReplicaId(1), role };
        assert_eq!(refusal(first.to_vec()), shared);
        for torsion in EIGHT_TORSION {
            let moved = CompressedEdwardsY::from_slice(&first).unwrap().decompress().unwrap() + torsion;
            assert_eq!(refusal(moved.compress().to_bytes().to_vec()), shared);
        }
    }
    let error = Identities::new(&Committee { members: vec![keys(KIND, 0).member(nowhere()); 2], ..committee(KIND, 4) });
    let error = error.err().unwrap().to_string();
    assert!(error.contains("identity key of replica 1") && error.contains("identity key of replica 0"), "{error}");
}

#[test]
fn an_identity_key_cannot_be_a_voting_key() {
    let voting = keys(KIND, 3).voting.public_key();
    let fault = KeyFault::Shared { replica: ReplicaId(3), role: KeyRole::Voting };
    assert_eq!(refusal(KeyRole::Identity, voting.to_vec()), fault);
}

#[test]
fn voting_keys_of_every_scheme_differ() {
    let mut committee = committee(AGGREGATE, 4);
    committee.members[3] = committee.members[1].clone();
    let fault = KeyFault::Shared { replica: ReplicaId(1), role: KeyRole::Voting };
    let expected = CryptoError::PublicKey { replica: ReplicaId(3), role: KeyRole::Voting, fault };
    assert_eq!(Keyring::new(AGGREGATE, &committee).err(), Some(expected));
}

#[test]
fn a_committee_without_valid_proofs_of_possession_is_refused() {
    let sound = committee(AGGREGATE, 4);
    assert!(Keyring::new(AGGREGATE, &sound).is_ok());
    let refusal = |kind, proof: &[u8]| {
        let mut committee = committee(kind, 4);
        committee.members[2].possession = Bytes::copy_from_slice(proof);
        match Keyring::new(kind, &committee).err() {
            Some(CryptoError::PublicKey { replica: ReplicaId(2), role: KeyRole::Voting, fault }) => fault,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refusal(AGGREGATE, b""), KeyFault::NoPossession(AGGREGATE.name()));
    assert_eq!(refusal(AGGREGATE, b"a proof"), KeyFault::WrongPossession(AGGREGATE.name()));
    let of_another = &sound.members[1].possession;
    assert_eq!(refusal(AGGREGATE, of_another), KeyFault::WrongPossession(AGGREGATE.name()));
    assert_eq!(
        refusal(KIND, of_another),
        KeyFault::WrongPossession(KIND.name()),
        "a scheme without proofs of possession accepted one"
    );
}

#[test]
fn identities_are_proven_under_every_voting_scheme() {
    for kind in SchemeKind::ALL.iter().copied().chain([AGGREGATE]) {
        let committee = committee(kind, 4);
        let identity = Identity::new(&committee, ReplicaId(3), keys(kind, 3).identity).unwrap();
        let identities = Identities::new(&committee).unwrap();
        let signature = identity.sign(b"a handshake");
        assert_eq!(identity.replica(), ReplicaId(3));
        assert!(identities.verify(ReplicaId(3), b"a handshake", &signature));
        assert!(!identities.verify(ReplicaId(3), b"another", &signature));
        assert!(!identities.verify(ReplicaId(2), b"a handshake", &signature));
        assert!(!identities.verify(ReplicaId(4), b"a handshake", &signature), "a stranger");
        let vote = keys(KIND, 3).voting.sign(b"a handshake");
        assert!(!identities.verify(ReplicaId(3), b"a handshake", &vote), "a voting key passed as an identity key");
        let wrong = Identity::new(&committee, ReplicaId(3), keys(kind, 2).identity).err().unwrap().to_string();
        assert!(wrong.contains("identity key of replica 3"), "{wrong}");
    }
}

#[test]
fn another_replicas_private_key_is_refused() {
    let committee = committee(KIND, 4);
    let new = |me, key| Crypto::new(KIND, &committee, ReplicaId(me), key, 8).err();
    assert_eq!(new(3, key(KIND, 3)), None);
    let error = new(3, key(KIND, 2)).unwrap();
    assert!(matches!(error, CryptoError::KeyMismatch { replica: ReplicaId(3), role: KeyRole::Voting, .. }), "{error}");
    assert_eq!(new(4, key(KIND, 4)), Some(CryptoError::Stranger { replica: ReplicaId(4), members: 4 }));
    let (expected, found) = (KIND.name(), SchemeKind::NONE.name());
    let scheme = CryptoError::Scheme { replica: ReplicaId(3), role: KeyRole::Voting, expected, found };
    assert_eq!(new(3, key(SchemeKind::NONE, 3)), Some(scheme));
}

#[test]
fn a_scheme_without_keys_accepts_no_key() {
    let mut committee = committee(SchemeKind::NONE, 4);
    committee.members[1].voting_key = Bytes::from_static(b"key");
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
fn schemes_are_found_by_name() {
    for kind in SchemeKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(*kind));
    }
    let error = "rsa".parse::<SchemeKind>().unwrap_err().to_string();
    let known = "ed25519, ecdsa-p256, secp256k1, bls12-381, rsa-2048, rsa-1024, hmac-sha256, aes-256-cmac, none";
    assert!(error.contains("`rsa`") && error.contains(known), "{error}");
    assert_eq!(format!("{:>8}|", SchemeKind::NONE), "    none|");
}
