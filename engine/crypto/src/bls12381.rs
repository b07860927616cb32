//! BLS multi-signatures over BLS12-381, with signatures in G1 and public keys in G2.
//!
//! They follow [draft-irtf-cfrg-bls-signature](https://datatracker.ietf.org/doc/draft-irtf-cfrg-bls-signature/), the
//! variant with minimal signature size and proofs of possession. Each point has one valid encoding: compressed, with
//! canonical coordinates.
//!
//! # Group membership
//!
//! The curves have more points than G1 and G2. A public key is checked once, when it is decoded. Of signatures, only
//! the sum is checked, once per certificate: for a sum in G1, `e(sum, g2) = e(H(m), sum of keys)` has only one
//! solution, so the sum equals that of the genuine signatures, regardless of its summands.
//!
//! # Sums of signatures
//!
//! With `E_i = s_i - sk_i H(m_i)`, a point of the curve, a signature is genuine if and only if `E_i` is zero, and a sum
//! is if and only if the sum of the `E_i` is zero. So a valid sum may hide signatures whose faults cancel out, such as
//! `s_1 + D` and `s_2 - D`, if their signers collude. The sum nevertheless equals the sum of the genuine signatures,
//! and proves the same. Bisection is sound: if a set is bad and one half is valid, the other half is bad, so only bad
//! signatures are ever blamed.

use crate::scheme::Effort;
use blst::BLST_ERROR;
use blst::min_sig::{AggregatePublicKey, AggregateSignature, PublicKey as Point, SecretKey, Signature};
use std::collections::BTreeMap;
use std::hint::black_box;

/// Length of a public key, a compressed point of G2, in bytes.
pub const PUBLIC_KEY_BYTES: usize = 96;
/// Length of a signature, a compressed point of G1, in bytes.
pub const SIGNATURE_BYTES: usize = 48;
/// Length of a private key, a scalar, in bytes.
pub const SECRET_KEY_BYTES: usize = 32;

/// Domain separation tag of signatures (section 4.2.3 of the draft).
pub const SIGNATURES: &[u8] = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";
/// Domain separation tag of proofs of possession.
pub const POSSESSION: &[u8] = b"BLS_POP_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";

/// Bit of an encoding's first byte that distinguishes a point from its opposite.
const SIGN_BIT: u8 = 0x20;

/// A private key, wiped from memory when dropped.
pub struct PrivateKey(Box<SecretKey>);

impl PrivateKey {
    /// Derives a key from at least 32 bytes by the draft's KeyGen.
    ///
    /// # Panics
    /// If there are fewer bytes.
    pub fn derive(seed: &[u8]) -> PrivateKey {
        PrivateKey(Box::new(SecretKey::key_gen(seed, &[]).expect("a seed of 32 bytes or more")))
    }

    /// Decodes a big-endian scalar; `None` if it is zero or not below the order.
    pub fn decode(scalar: &[u8]) -> Option<PrivateKey> {
        SecretKey::from_bytes(scalar).ok().map(|key| PrivateKey(Box::new(key)))
    }

    pub fn encode(&self) -> [u8; SECRET_KEY_BYTES] {
        self.0.to_bytes()
    }

    pub fn public_key(&self) -> [u8; PUBLIC_KEY_BYTES] {
        self.0.sk_to_pk().compress()
    }

    /// Signs a message under a domain separation tag.
    pub fn sign(&self, tag: &[u8], message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(message, tag, &[]).compress()
    }
}

/// A public key in G2, and its inverse.
#[derive(Clone, Copy)]
pub struct PublicKey {
    point: Point,
    inverse: Point,
}

impl PublicKey {
    /// Decodes a key; `None` if it is not the canonical encoding of a point of G2 other than the identity.
    pub fn decode(encoded: &[u8]) -> Option<PublicKey> {
        let encoded: &[u8; PUBLIC_KEY_BYTES] = encoded.try_into().ok()?;
        let point = Point::key_validate(encoded).ok()?;
        let mut opposite = *encoded;
        opposite[0] ^= SIGN_BIT;
        let inverse = Point::uncompress(&opposite).expect("the inverse of a point is one");
        Some(PublicKey { point, inverse })
    }

    /// Returns the encoding without its sign bit, which only the key and its inverse share.
    pub(crate) fn abscissa(&self) -> [u8; PUBLIC_KEY_BYTES] {
        let mut encoded = self.point.compress();
        encoded[0] &= !SIGN_BIT;
        encoded
    }

    /// Verifies one signature under a domain separation tag.
    pub fn verify(&self, tag: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = Signature::uncompress(signature) else { return false };
        signature.verify(true, message, tag, &[], &self.point, false) == BLST_ERROR::BLST_SUCCESS
    }
}

/// A signature that is a point of the curve, with its message and signer.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    pub key: usize,
    pub message: &'a [u8],
    signature: Signature,
}

impl<'a> Claim<'a> {
    /// Decodes a signature by the key at a table index; `None` if it is not the canonical encoding of a point of the
    /// curve. Does not check whether the point is in G1.
    pub fn decode(key: usize, message: &'a [u8], signature: &[u8]) -> Option<Claim<'a>> {
        Some(Claim { key, message, signature: Signature::uncompress(signature).ok()? })
    }
}

/// Adds up signatures; `None` if there are none.
fn sum<'a, 'b: 'a>(claims: impl IntoIterator<Item = &'a Claim<'b>>) -> Option<Signature> {
    let mut claims = claims.into_iter();
    let mut sum = AggregateSignature::from_signature(&claims.next()?.signature);
    for claim in claims {
        sum.add_signature(&claim.signature, false).expect("fails only in checks that were not asked for");
    }
    Some(sum.to_signature())
}

/// Adds up signatures and encodes the sum.
///
/// # Panics
/// If there are none.
pub fn aggregate(claims: &[Claim<'_>]) -> [u8; SIGNATURE_BYTES] {
    sum(claims).expect("at least one signature").compress()
}

/// The keys of a committee, and their sum.
pub struct KeyTable {
    keys: Vec<PublicKey>,
    /// `None` without keys, or if absentees' keys are never subtracted from it.
    all: Option<AggregatePublicKey>,
}

impl KeyTable {
    /// `is_cached`: the key of a certificate is computed as the sum of all keys minus the absentees' keys, which takes
    /// at most f additions (section 3 of Li, Sonnino and Jovanovic). Otherwise it is the sum of the signers' keys.
    pub fn new(keys: Vec<PublicKey>, is_cached: bool) -> KeyTable {
        let all = add_up(keys.iter().map(|key| &key.point)).filter(|_| is_cached);
        KeyTable { keys, all }
    }

    pub fn get(&self, key: usize) -> Option<&PublicKey> {
        self.keys.get(key)
    }

    /// Verifies the sum of the claims' signatures; `None` if it is not valid. The keys of one message must differ.
    pub fn verify_sum(&self, claims: &[Claim<'_>]) -> Option<Effort> {
        let signature = sum(claims)?;
        self.verify(&signature, claims.iter().map(|claim| (claim.key, claim.message)))
    }

    /// Verifies an encoded sum of signatures of the given keys and messages; `None` if it is not valid. The keys of one
    /// message must differ, and all must be in the table.
    pub fn verify_encoded<'a>(
        &self,
        signature: &[u8],
        claims: impl ExactSizeIterator<Item = (usize, &'a [u8])>,
    ) -> Option<Effort> {
        self.verify(&Signature::uncompress(signature).ok()?, claims)
    }

    /// One pairing for the signature and one per message. Fails if the keys of a message add up to zero.
    fn verify<'a>(
        &self,
        signature: &Signature,
        claims: impl ExactSizeIterator<Item = (usize, &'a [u8])>,
    ) -> Option<Effort> {
        let mut signers: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (key, message) in claims {
            signers.entry(message).or_default().push(key);
        }
        let messages: Vec<&[u8]> = signers.keys().copied().collect();
        let mut effort = Effort { key_additions: 0, pairings: 1 + messages.len() as u64 };
        let keys: Vec<Point> = signers.values().map(|keys| self.key_of(keys, &mut effort.key_additions)).collect();
        let keys: Vec<&Point> = keys.iter().collect();
        let verdict = signature.aggregate_verify(true, &messages, SIGNATURES, &keys, false);
        (verdict == BLST_ERROR::BLST_SUCCESS).then_some(effort)
    }

    /// Adds up keys like the verification of a proof, and returns the operations that it took.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn add_up(&self, signers: &[usize]) -> Effort {
        let mut key_additions = 0;
        black_box(self.key_of(signers, &mut key_additions));
        Effort { key_additions, pairings: 0 }
    }

    /// Returns the sum of some keys, computed with the fewer additions.
    fn key_of(&self, signers: &[usize], additions: &mut u64) -> Point {
        let Some(all) = self.all.filter(|_| is_shorter_by_absentees(self.keys.len(), signers.len())) else {
            *additions += signers.len() as u64 - 1;
            return add_up(signers.iter().map(|key| &self.keys[*key].point)).expect("a signer").to_public_key();
        };
        let mut is_absent = vec![true; self.keys.len()];
        signers.iter().for_each(|key| is_absent[*key] = false);
        let absentees = self.keys.iter().zip(is_absent).filter(|(_, is_absent)| *is_absent).map(|(key, _)| key);
        let mut key = all;
        for absentee in absentees {
            *additions += 1;
            key.add_public_key(&absentee.inverse, false).expect("fails only in checks that were not asked for");
        }
        key.to_public_key()
    }
}

/// Returns whether subtracting the absentees' keys takes no more additions than adding up the signers' keys.
fn is_shorter_by_absentees(members: usize, signers: usize) -> bool {
    members - signers < signers
}

/// Returns the number of additions by which a [`KeyTable`] of `members` sums `signers`' keys.
pub(crate) fn key_additions(members: usize, signers: usize, is_cached: bool) -> u64 {
    let absent = members - signers;
    if is_cached && is_shorter_by_absentees(members, signers) { absent as u64 } else { signers as u64 - 1 }
}

fn add_up<'a>(mut keys: impl Iterator<Item = &'a Point>) -> Option<AggregatePublicKey> {
    let mut sum = AggregatePublicKey::from_public_key(keys.next()?);
    for key in keys {
        sum.add_public_key(key, false).expect("fails only in checks that were not asked for");
    }
    Some(sum)
}
