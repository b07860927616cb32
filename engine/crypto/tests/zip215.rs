//! A batch accepts exactly the signatures that single verification by ZIP-215 accepts. The oracle is ed25519-zebra's
//! single verification. Signatures with small-order components, non-canonical encodings and out-of-range scalars are
//! constructed here from the equations.

use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use ed25519_zebra::{Signature, VerificationKey};
use proptest::prelude::*;
use quorate_crypto::ed25519::{KeyTable, PublicKey, verify_many};
use sha2::{Digest, Sha512};

/// The group order l, little-endian: 2^252 + 27742317777372353535851937790883648493.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

fn scalar(seed: u64, role: &[u8]) -> Scalar {
    Scalar::from_bytes_mod_order_wide(
        &Sha512::new().chain_update(role).chain_update(seed.to_le_bytes()).finalize().into(),
    )
}

/// A key aB + T with a small-order point T.
struct Key {
    secret: Scalar,
    encoded: [u8; 32],
}

impl Key {
    fn new(seed: u64, torsion: usize) -> Key {
        let secret = scalar(seed, b"key");
        let point = ED25519_BASEPOINT_POINT * secret + EIGHT_TORSION[torsion % 8];
        Key { secret, encoded: point.compress().to_bytes() }
    }

    /// Signs with a small-order component in R.
    fn sign(&self, message: &[u8], torsion: usize) -> [u8; 64] {
        let nonce = scalar(message.len() as u64, &[&self.encoded[..], message].concat());
        let commitment = ED25519_BASEPOINT_POINT * nonce + EIGHT_TORSION[torsion % 8];
        self.respond(message, commitment.compress().to_bytes(), nonce)
    }

    fn respond(&self, message: &[u8], commitment: [u8; 32], nonce: Scalar) -> [u8; 64] {
        let hash = Sha512::new().chain_update(commitment).chain_update(self.encoded).chain_update(message).finalize();
        let response = nonce + Scalar::from_bytes_mod_order_wide(&hash.into()) * self.secret;
        join(commitment, response.to_bytes())
    }
}

fn join(commitment: [u8; 32], response: [u8; 32]) -> [u8; 64] {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&commitment);
    signature[32..].copy_from_slice(&response);
    signature
}

/// s + l: the same residue, out of range. It fits into 32 bytes, as l is below 2^253.
fn plus_order(signature: [u8; 64]) -> [u8; 64] {
    let mut changed = signature;
    let mut carry = 0;
    for (byte, order) in changed[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        *byte = sum as u8;
        carry = sum >> 8;
    }
    assert_eq!(carry, 0);
    changed
}

fn oracle(key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    let Ok(signature) = <[u8; 64]>::try_from(signature) else { return false };
    VerificationKey::try_from(*key).is_ok_and(|key| key.verify(&Signature::from_bytes(&signature), message).is_ok())
}

type Case = (usize, Vec<u8>, Vec<u8>);

fn table(encoded: &[[u8; 32]]) -> KeyTable {
    KeyTable::new(encoded.iter().map(|key| PublicKey::decode(key).unwrap()).collect())
}

fn batch(table: &KeyTable, cases: &[Case]) -> bool {
    table.verify_many(cases.iter().map(|(key, message, signature)| (*key, &message[..], &signature[..])))
}

/// Verifies without a table, as for keys that are not known in advance.
fn batch_of_strangers(keys: &[[u8; 32]], cases: &[Case]) -> bool {
    let keys: Vec<PublicKey> = keys.iter().map(|key| PublicKey::decode(key).unwrap()).collect();
    let keys: Vec<&PublicKey> = keys.iter().collect();
    verify_many(&keys, cases.iter().map(|(key, message, signature)| (*key, &message[..], &signature[..])))
}

/// All encodings of small-order points: the eight canonical ones, and those with y not reduced or with the sign of zero
/// set.
fn small_order_encodings() -> Vec<[u8; 32]> {
    const PRIME: [u8; 32] = {
        let mut prime = [0xff; 32];
        prime[0] = 0xed;
        prime[31] = 0x7f;
        prime
    };
    let with = |mut bytes: [u8; 32], low: u8, sign: bool| {
        bytes[0] = low;
        bytes[31] |= u8::from(sign) << 7;
        bytes
    };
    let mut encodings: Vec<[u8; 32]> = EIGHT_TORSION.iter().map(|point| point.compress().to_bytes()).collect();
    encodings.push(with([0; 32], 1, true));
    encodings.push(with(PRIME, 0xec, true));
    for low in [0xed, 0xee] {
        encodings.push(with(PRIME, low, false));
        encodings.push(with(PRIME, low, true));
    }
    encodings
}

/// The vectors of ZIP-215: s = 0 with small-order A and R in any encoding satisfies the cofactored equation for every
/// message.
#[test]
fn all_encodings_of_small_order_points_are_accepted() {
    let encodings = small_order_encodings();
    assert_eq!(encodings.iter().collect::<std::collections::BTreeSet<_>>().len(), 14);
    let table = table(&encodings);
    let mut cases: Vec<Case> = Vec::new();
    for (key, encoded) in encodings.iter().enumerate() {
        assert!(PublicKey::decode(encoded).unwrap().is_weak());
        for commitment in &encodings {
            let signature = join(*commitment, [0; 32]);
            assert!(oracle(encoded, b"Zcash", &signature));
            assert!(table.verify(key, b"Zcash", &signature));
            cases.push((key, b"Zcash".to_vec(), signature.to_vec()));
        }
    }
    assert_eq!(cases.len(), 196);
    assert!(batch(&table, &cases) && batch_of_strangers(&encodings, &cases));
    for pair in cases.windows(2) {
        assert!(batch(&table, pair) && batch_of_strangers(&encodings, pair));
    }
    cases[100].2[32] = 1;
    assert!(!batch(&table, &cases) && !batch_of_strangers(&encodings, &cases));
}

/// A check without the cofactor would refuse these, alone or depending on the rest of the batch.
#[test]
fn components_of_small_order_are_ignored() {
    let keys: Vec<Key> = (0..8).map(|at| Key::new(at as u64, at)).collect();
    let table = table(&keys.iter().map(|key| key.encoded).collect::<Vec<_>>());
    for torsion in 0..8 {
        let cases: Vec<Case> = keys
            .iter()
            .enumerate()
            .map(|(at, key)| (at, vec![at as u8; at], key.sign(&vec![at as u8; at], torsion).to_vec()))
            .collect();
        for (at, message, signature) in &cases {
            assert!(!PublicKey::decode(&keys[*at].encoded).unwrap().is_weak());
            assert!(oracle(&keys[*at].encoded, message, signature) && table.verify(*at, message, signature));
        }
        assert!(batch(&table, &cases));
    }
}

/// Errors that cancel in a plain sum do not cancel under the batch's coefficients.
#[test]
fn errors_that_would_cancel_are_found() {
    let keys: Vec<Key> = (0..4).map(|at| Key::new(at, 0)).collect();
    let table = table(&keys.iter().map(|key| key.encoded).collect::<Vec<_>>());
    let shifted = |signature: [u8; 64], by: Scalar| -> Vec<u8> {
        let response = Scalar::from_canonical_bytes(signature[32..].try_into().unwrap()).unwrap() + by;
        join(signature[..32].try_into().unwrap(), response.to_bytes()).to_vec()
    };
    for (first, second) in [(0, 1), (1, 2), (2, 3), (0, 3)] {
        let mut cases: Vec<Case> = (0..4).map(|at| (at, b"m".to_vec(), keys[at].sign(b"m", 0).to_vec())).collect();
        assert!(batch(&table, &cases));
        cases[first].2 = shifted(keys[first].sign(b"m", 0), Scalar::from(5u64));
        cases[second].2 = shifted(keys[second].sign(b"m", 0), -Scalar::from(5u64));
        assert!(!batch(&table, &cases));
    }
}

#[test]
fn edge_cases_of_batches() {
    let key = Key::new(1, 0);
    let table = table(&[key.encoded]);
    let good: Case = (0, b"m".to_vec(), key.sign(b"m", 0).to_vec());
    assert!(batch(&table, &[]));
    assert!(batch(&table, &[good.clone(), good.clone()]), "a key may occur twice");
    let stranger: Case = (1, good.1.clone(), good.2.clone());
    assert!(!batch(&table, &[good.clone(), stranger.clone()]));
    assert!(!table.verify(1, &stranger.1, &stranger.2));
    let high = plus_order(good.2.clone().try_into().unwrap()).to_vec();
    assert!(!oracle(&key.encoded, b"m", &high));
    assert!(!batch(&table, &[good.clone(), (0, b"m".to_vec(), high)]));
    let not_a_point = (0..)
        .map(|low| {
            let mut y = [0; 32];
            y[0] = low;
            y
        })
        .find(|y| curve25519_dalek::edwards::CompressedEdwardsY(*y).decompress().is_none())
        .unwrap();
    assert!(PublicKey::decode(&key.encoded).is_some() && PublicKey::decode(&not_a_point).is_none());
    let mut unreadable = good.clone();
    unreadable.2[..32].copy_from_slice(&not_a_point);
    assert!(!batch(&table, &[good, unreadable]));
}

/// RFC 8032, section 7.1, test 2, alone and in a batch with itself.
#[test]
fn the_vectors_of_the_rfc_hold() {
    let hex = |text| quorate_types::digest::decode_hex(text).unwrap();
    let seed: [u8; 32] = hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb").try_into().unwrap();
    let public = hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
    let signature = hex(concat!(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da",
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    ));
    let key = quorate_crypto::KeyPair::from_seed(quorate_crypto::SchemeKind::ED25519, seed);
    assert_eq!(key.public_key(), public);
    assert_eq!(key.sign(&[0x72]), signature);
    let table = table(&[public.try_into().unwrap()]);
    assert!(table.verify(0, &[0x72], &signature));
    assert!(batch(&table, &[(0, vec![0x72], signature.clone()), (0, vec![0x72], signature)]));
}

/// Change to a valid signature.
#[derive(Clone, Copy, Debug)]
enum Change {
    None,
    FlipSignature(usize),
    FlipMessage,
    OutOfRange,
    WrongKey,
    Cut(usize),
    SmallOrder(usize),
    NotAPoint(u8),
    AddTorsionAfterSigning(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        40 => Just(Change::None),
        2 => (0usize..512).prop_map(Change::FlipSignature),
        1 => Just(Change::FlipMessage),
        1 => Just(Change::OutOfRange),
        1 => Just(Change::WrongKey),
        1 => (0usize..64).prop_map(Change::Cut),
        3 => (0usize..14).prop_map(Change::SmallOrder),
        1 => any::<u8>().prop_map(Change::NotAPoint),
        1 => (0usize..8).prop_map(Change::AddTorsionAfterSigning),
    ]
}

fn apply(change: Change, keys: &[Key], at: usize, message: Vec<u8>, torsion: usize) -> Case {
    let signature = keys[at].sign(&message, torsion);
    let (mut signed, mut message) = (signature.to_vec(), message);
    let mut key = at;
    match change {
        Change::None => {}
        Change::FlipSignature(bit) => signed[bit / 8] ^= 1 << (bit % 8),
        Change::FlipMessage => message.push(1),
        Change::OutOfRange => signed = plus_order(signature).to_vec(),
        Change::WrongKey => key = (at + 1) % keys.len(),
        Change::Cut(length) => signed.truncate(length),
        Change::SmallOrder(which) => {
            signed = keys[at].respond(&message, small_order_encodings()[which], Scalar::ZERO).to_vec();
        }
        Change::NotAPoint(byte) => signed[..32].fill(byte),
        Change::AddTorsionAfterSigning(torsion) => {
            let commitment = curve25519_dalek::edwards::CompressedEdwardsY(signature[..32].try_into().unwrap());
            let moved: EdwardsPoint = commitment.decompress().unwrap() + EIGHT_TORSION[torsion];
            signed[..32].copy_from_slice(&moved.compress().to_bytes());
        }
    }
    (key, message, signed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_batch_accepts_exactly_what_its_members_do(
        torsions in proptest::collection::vec(0usize..8, 2..9),
        picks in proptest::collection::vec(
            (any::<prop::sample::Index>(), proptest::collection::vec(any::<u8>(), 0..150), 0usize..8, change()),
            2..20,
        ),
    ) {
        let keys: Vec<Key> = torsions.iter().enumerate().map(|(at, torsion)| Key::new(at as u64, *torsion)).collect();
        let encoded: Vec<[u8; 32]> = keys.iter().map(|key| key.encoded).collect();
        let table = table(&encoded);
        let cases: Vec<Case> = picks
            .into_iter()
            .map(|(pick, message, torsion, change)| apply(change, &keys, pick.index(keys.len()), message, torsion))
            .collect();
        let single: Vec<bool> =
            cases.iter().map(|(key, message, signed)| oracle(&keys[*key].encoded, message, signed)).collect();
        for ((key, message, signed), expected) in cases.iter().zip(&single) {
            prop_assert_eq!(table.verify(*key, message, signed), *expected);
            let alone = [(*key, &message[..], &signed[..])];
            prop_assert_eq!(table.verify_many(alone.into_iter()), *expected, "a batch of one");
        }
        prop_assert_eq!(batch(&table, &cases), single.iter().all(|valid| *valid), "{:?}", single);
        prop_assert_eq!(batch_of_strangers(&encoded, &cases), single.iter().all(|valid| *valid), "{:?}", single);
        let valid: Vec<Case> =
            cases.iter().zip(&single).filter(|(_, valid)| **valid).map(|(case, _)| case.clone()).collect();
        prop_assert!(batch(&table, &valid) && batch_of_strangers(&encoded, &valid));
    }
}
