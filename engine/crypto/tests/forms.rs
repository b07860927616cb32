//! A signature, a key and a proof of possession have exactly one valid encoding, in every scheme.

use crate::common::*;
use bytes::Bytes;
use quorate_crypto::{CryptoError, KeyFault, KeyRole, Keyring, SchemeKind};
use quorate_types::digest::decode_hex;
use quorate_types::{Domain, ReplicaId};

const MESSAGE: &[u8] = b"a message";
const SIGNER: u16 = 2;

fn hex(text: &str) -> Vec<u8> {
    decode_hex(text).unwrap()
}

fn keyring(kind: SchemeKind) -> Keyring {
    Keyring::new(kind, &committee(kind, 4)).unwrap()
}

fn signature(kind: SchemeKind) -> Vec<u8> {
    key(kind, SIGNER).sign(MESSAGE).to_vec()
}

/// Checks that no other encoding of a valid signature is valid, on its own or in a proof.
fn refused(kind: SchemeKind, forms: &[Vec<u8>]) {
    let keyring = keyring(kind);
    assert!(keyring.verify(ReplicaId(SIGNER), MESSAGE, &signature(kind)));
    for form in forms {
        assert!(!keyring.verify(ReplicaId(SIGNER), MESSAGE, form), "{kind}: {form:02x?}");
        let claim = (ReplicaId(SIGNER), MESSAGE, &form[..]);
        assert!(!keyring.verify_many(&[claim]), "{kind}: {form:02x?}");
        assert_eq!(keyring.prove(&[claim]).proof, Err(vec![ReplicaId(SIGNER)]), "{kind}: {form:02x?}");
    }
}

/// Adds big-endian numbers; `None` if the sum is longer.
fn plus(number: &[u8], other: &[u8]) -> Option<Vec<u8>> {
    let (mut result, mut carry) = (number.to_vec(), 0);
    for (byte, other) in result.iter_mut().zip(other).rev() {
        let sum = u16::from(*byte) + u16::from(*other) + carry;
        *byte = sum as u8;
        carry = sum >> 8;
    }
    (carry == 0).then_some(result)
}

/// Subtracts big-endian numbers.
fn minus(number: &[u8], other: &[u8]) -> Vec<u8> {
    let inverted: Vec<u8> = other.iter().map(|byte| !byte).collect();
    let mut one = vec![0; other.len()];
    one[other.len() - 1] = 1;
    let (mut result, mut carry) = (number.to_vec(), 1);
    for (byte, other) in result.iter_mut().zip(&inverted).rev() {
        let sum = u16::from(*byte) + u16::from(*other) + carry;
        *byte = sum as u8;
        carry = sum >> 8;
    }
    result
}

#[test]
fn other_lengths_are_refused() {
    for kind in schemes().into_iter().filter(|kind| kind.profile().unforgeable) {
        let good = signature(kind);
        let longer = [&good[..], &[0]].concat();
        let shorter = good[1..].to_vec();
        refused(kind, &[Vec::new(), longer, [&[0], &good[..]].concat(), shorter, good.repeat(2)]);
    }
}

#[test]
fn ecdsa_accepts_the_lower_s_in_range_only() {
    let orders = [
        (SchemeKind::ECDSA_P256, "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"),
        (SchemeKind::SECP256K1, "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"),
    ];
    for (kind, order) in orders {
        let (order, good) = (hex(order), signature(kind));
        let (r, s) = good.split_at(32);
        assert!(s[0] < 0x80, "{kind} signs with a high s");
        let (zero, most) = ([0; 32], [0xff; 32]);
        let mut forms = vec![
            [r, &minus(&order, s)].concat(),
            [&zero, s].concat(),
            [r, &zero].concat(),
            [&zero, &zero[..]].concat(),
            [&order, s].concat(),
            [r, &order].concat(),
            [&most, s].concat(),
            [r, &most].concat(),
            [s, r].concat(),
        ];
        // The same residues out of range, where they fit.
        forms.extend(plus(r, &order).map(|r| [&r, s].concat()));
        forms.extend(plus(s, &order).map(|s| [r, &s].concat()));
        // The DER structure ECDSA-Sig-Value with both numbers.
        let der = [&[0x30, 70, 2, 33, 0][..], r, &[2, 33, 0], s].concat();
        forms.push(der);
        refused(kind, &forms);
    }
}

#[test]
fn rsa_accepts_numbers_below_the_modulus_only() {
    for kind in [SchemeKind::RSA_2048, SchemeKind::RSA_1024] {
        let (modulus, good) = (key(kind, SIGNER).public_key(), signature(kind));
        let (zero, mut one) = (vec![0; good.len()], vec![0; good.len()]);
        *one.last_mut().unwrap() = 1;
        let mut forms = vec![zero, one.clone(), minus(&modulus, &one), modulus.to_vec(), minus(&modulus, &good)];
        forms.push(vec![0xff; good.len()]);
        forms.extend(plus(&good, &modulus));
        refused(kind, &forms);
    }
}

/// Characteristic of the BLS12-381 base field.
const FIELD: &str = "1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab";

fn bls() -> Vec<SchemeKind> {
    schemes().into_iter().filter(|kind| *kind == SchemeKind::BLS12_381).collect()
}

/// Returns an encoding with changed flags: compressed, infinity, sign.
fn flagged(encoded: &[u8], flags: u8) -> Vec<u8> {
    let mut changed = encoded.to_vec();
    changed[0] ^= flags << 5;
    changed
}

/// Encodes points of the curve of G1 that are outside G1.
fn outside_g1() -> Vec<Vec<u8>> {
    let encodings = (1u8..60).map(|x| {
        let mut encoded = vec![0; 48];
        (encoded[0], encoded[47]) = (0x80, x);
        encoded
    });
    let outside = encodings
        .filter(|encoded| blst::min_sig::Signature::uncompress(encoded).is_ok_and(|point| !point.subgroup_check()));
    outside.take(8).collect()
}

#[test]
fn bls_accepts_canonical_points_of_g1_only() {
    let outside = outside_g1();
    assert_eq!(outside.len(), 8);
    for kind in bls() {
        let good = signature(kind);
        let abscissa = flagged(&good, good[0] >> 5);
        let beyond = plus(&abscissa, &hex(FIELD)).map(|sum| flagged(&sum, good[0] >> 5));
        let uncompressed = blst::min_sig::Signature::uncompress(&good).unwrap().serialize().to_vec();
        let infinity = flagged(&[0; 48], 0b110);
        let mut forms = outside.clone();
        forms.extend((1..8).map(|flags| flagged(&good, flags)));
        forms.extend((0..8).map(|flags| flagged(&infinity, flags)));
        forms.extend(beyond);
        forms.push(uncompressed);
        refused(kind, &forms);
    }
}

/// Returns the error for a committee of four in which replica 2 has this voting key.
fn refusal(kind: SchemeKind, public_key: &[u8], possession: Bytes) -> KeyFault {
    let mut committee = committee(kind, 4);
    let member = &mut committee.members[2];
    (member.voting_key, member.possession) = (Bytes::copy_from_slice(public_key), possession);
    match Keyring::new(kind, &committee).err() {
        Some(CryptoError::PublicKey { replica: ReplicaId(2), role: KeyRole::Voting, fault }) => fault,
        other => panic!("{kind}: {other:?}"),
    }
}

#[test]
fn unusable_keys_of_every_scheme_are_named() {
    for kind in schemes().into_iter().filter(|kind| !kind.profile().needs_possession) {
        let expected = kind.profile().public_key_bytes;
        for found in [expected + 1, expected.max(1) - 1, 4096] {
            if found != expected {
                let length = KeyFault::Length { scheme: kind.name(), expected, found };
                assert_eq!(refusal(kind, &vec![2; found], Bytes::new()), length);
            }
        }
    }
    let wrong = |kind: SchemeKind, public_key: &[u8]| {
        assert_eq!(refusal(kind, public_key, Bytes::new()), KeyFault::NotAKey(kind.name()), "{public_key:02x?}");
    };
    for kind in [SchemeKind::ECDSA_P256, SchemeKind::SECP256K1] {
        let good = key(kind, 2).public_key();
        for first in [0, 1, 4, 5, 6, 7, 0xff] {
            wrong(kind, &[&[first], &good[1..]].concat());
        }
        wrong(kind, &[0; 33]);
        wrong(kind, &[&[2][..], &[0xff; 32]].concat());
        // About half of all x coordinates belong to no point.
        let none = (0u8..=255).filter(|x| {
            let encoded = [&[2], &[0; 31][..], &[*x]].concat();
            let mut committee = committee(kind, 4);
            committee.members[2].voting_key = encoded.into();
            Keyring::new(kind, &committee).is_err()
        });
        assert!((64..192).contains(&none.count()));
    }
    for kind in [SchemeKind::RSA_2048, SchemeKind::RSA_1024] {
        let good = key(kind, 2).public_key();
        let mut even = good.to_vec();
        *even.last_mut().unwrap() &= 0xfe;
        wrong(kind, &even);
        wrong(kind, &[&[good[0] & 0x7f], &good[1..]].concat());
        wrong(kind, &vec![0; good.len()]);
    }
}

#[test]
fn a_key_pair_has_one_proof_of_possession() {
    for kind in bls() {
        let (good, proof) = (key(kind, 2).public_key(), key(kind, 2).prove_possession());
        let wrong = KeyFault::WrongPossession(kind.name());
        for form in (1..8).map(|flags| flagged(&proof, flags)).chain([proof.repeat(2), flagged(&[0; 48], 0b110)]) {
            assert_eq!(refusal(kind, &good, form.into()), wrong);
        }
        let as_a_vote = key(kind, 2).sign(&good);
        assert_eq!(refusal(kind, &good, as_a_vote), wrong, "a signature passed as a proof of possession");
        assert!(!keyring(kind).verify(ReplicaId(2), &good, &proof), "a proof of possession passed as a signature");
    }
}

#[test]
fn signatures_of_one_scheme_are_none_of_another() {
    let subject = subject(Domain::Vote, 3);
    for kind in SchemeKind::ALL.iter().copied().filter(|kind| kind.profile().unforgeable) {
        let mut device = crypto(kind, 4, 0);
        for other in SchemeKind::ALL.iter().copied().filter(|other| *other != kind) {
            assert!(!device.verify_vote(&vote(other, subject, 2)), "{kind} accepts {other}");
        }
    }
}
