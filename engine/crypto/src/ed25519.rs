//! Ed25519 by the rules of ZIP-215, for one signature or a whole quorum at a time.
//!
//! # Valid signatures
//!
//! RFC 8032 leaves open whether a signature with a small-order component is valid, and libraries differ. Some are even
//! inconsistent, and accept in a batch a signature that they refuse alone. Replicas that disagree on one certificate
//! fork, so all code here follows [ZIP-215](https://zips.z.cash/zip-0215): A and R are any encodings that decode to a
//! point, canonical or not; s is less than the group order l; and `[8](sB - R - kA) = 0` with k = SHA-512(R, A,
//! message). The factor 8 maps every small-order component to zero, in a sum as in a single term, so a batch is valid
//! exactly if all its members are.
//!
//! # Batches
//!
//! With `E_i = [8](s_i B - R_i - k_i A_i)`, which lies in the subgroup of prime order l, a batch is accepted if the sum
//! of z_i E_i is zero. If every E_i is zero, so is the sum: no batch of valid signatures is refused. If some E_j other
//! than E_0 is not zero, then for any choice of the other coefficients at most one z_j below 2^128 makes the sum zero;
//! if only E_0 is not zero, the sum is E_0, for z_0 = 1. So with 128-bit coefficients chosen at random after the batch
//! is fixed, a bad batch passes with probability 2^-128.
//!
//! The coefficients are not random but derived, as in the Fiat-Shamir transform, by SHA-512 over the whole batch: for
//! each claim in order the full 64 bytes of SHA-512(R, A, message), which bind all three, and s. Changing any byte of
//! any claim changes all coefficients, so a forger can only try batches, 2^128 of them in expectation: as hard as
//! breaking a key. All replicas that verify the same batch compute the same coefficients, so a verdict is reproducible.

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint, VartimeEdwardsPrecomputation};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{IsIdentity, VartimeMultiscalarMul, VartimePrecomputedMultiscalarMul};
use ed25519_zebra::{Signature, VerificationKey};
use sha2::{Digest, Sha512};

/// Length of a public key, a compressed point, in bytes.
pub const PUBLIC_KEY_BYTES: usize = 32;
/// Length of a signature, R followed by s, in bytes.
pub const SIGNATURE_BYTES: usize = 64;
const COEFFICIENT_BYTES: usize = 16;

/// A public key, decoded by the rules of ZIP-215, which also accept small-order and non-canonical ones.
pub struct PublicKey {
    encoded: [u8; PUBLIC_KEY_BYTES],
    point: EdwardsPoint,
    alone: VerificationKey,
}

impl PublicKey {
    /// Decodes a key; `None` if it is not a point of the curve.
    pub fn decode(encoded: &[u8; PUBLIC_KEY_BYTES]) -> Option<PublicKey> {
        let point = CompressedEdwardsY(*encoded).decompress()?;
        let alone = VerificationKey::try_from(*encoded).ok()?;
        Some(PublicKey { encoded: *encoded, point, alone })
    }

    /// Returns whether the key has no component of large order, so that anybody can sign for it.
    pub fn is_weak(&self) -> bool {
        self.point.is_small_order()
    }

    /// Returns the same bytes for all encodings of the key, and for all keys that differ from it by a small-order
    /// point.
    pub(crate) fn canonical(&self) -> [u8; PUBLIC_KEY_BYTES] {
        self.point.mul_by_cofactor().compress().to_bytes()
    }

    /// Returns the corresponding X25519 public key, a point of Curve25519 (RFC 7748, section 4.1).
    pub fn to_x25519(&self) -> [u8; PUBLIC_KEY_BYTES] {
        self.point.to_montgomery().to_bytes()
    }

    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = <[u8; SIGNATURE_BYTES]>::try_from(signature) else { return false };
        self.alone.verify(&Signature::from_bytes(&signature), message).is_ok()
    }
}

/// Verifies a batch of signatures, each given as the index of its key, the message and the signature. Meant for keys
/// used too rarely to justify a [`KeyTable`]. A key may occur more than once; an empty batch is valid.
///
/// # Panics
/// If an index is out of range.
pub fn verify_many<'a>(
    keys: &[&PublicKey],
    claims: impl ExactSizeIterator<Item = (usize, &'a [u8], &'a [u8])>,
) -> bool {
    let Some(batch) = Batch::read(claims.map(|(key, message, signature)| (key, keys[key], message, signature))) else {
        return false;
    };
    let scalars = batch.static_scalars(keys.len()).into_iter().chain(batch.coefficients.iter().copied());
    let points = std::iter::once(ED25519_BASEPOINT_POINT).chain(keys.iter().map(|key| key.point));
    let points = points.chain(batch.terms.iter().map(|term| term.commitment));
    EdwardsPoint::vartime_multiscalar_mul(scalars, points).mul_by_cofactor().is_identity()
}

/// Decoded public keys with precomputed multiples of each, about 10 kB per key, which speed up batches.
pub struct KeyTable {
    keys: Vec<PublicKey>,
    /// Tables for the base point, then for each key in order.
    multiples: VartimeEdwardsPrecomputation,
}

impl KeyTable {
    pub fn new(keys: Vec<PublicKey>) -> KeyTable {
        let points = std::iter::once(&ED25519_BASEPOINT_POINT).chain(keys.iter().map(|key| &key.point));
        let multiples = VartimeEdwardsPrecomputation::new(points);
        KeyTable { keys, multiples }
    }

    /// Verifies one signature; false if there is no such key.
    pub fn verify(&self, key: usize, message: &[u8], signature: &[u8]) -> bool {
        self.keys.get(key).is_some_and(|key| key.verify(message, signature))
    }

    /// Verifies a batch of signatures, each given as the key's index, the message and the signature, by one multiscalar
    /// multiplication. A key may occur more than once; an empty batch is valid.
    pub fn verify_many<'a>(&self, claims: impl ExactSizeIterator<Item = (usize, &'a [u8], &'a [u8])> + Clone) -> bool {
        let Some(highest) = claims.clone().map(|(key, ..)| key).max() else { return true };
        if highest >= self.keys.len() {
            return false;
        }
        let claims = claims.map(|(key, message, signature)| (key, &self.keys[key], message, signature));
        let Some(batch) = Batch::read(claims) else { return false };
        let statics = batch.static_scalars(highest + 1);
        let commitments = batch.terms.iter().map(|term| term.commitment);
        let sum = self.multiples.vartime_mixed_multiscalar_mul(&statics, &batch.coefficients, commitments);
        sum.mul_by_cofactor().is_identity()
    }
}

/// One claim's part of the batch equation.
struct Term {
    key: usize,
    commitment: EdwardsPoint,
    challenge: Scalar,
    response: Scalar,
}

/// The batch equation without the points of the keys.
struct Batch {
    terms: Vec<Term>,
    coefficients: Vec<Scalar>,
}

impl Batch {
    /// Decodes claims of key index, key, message and signature; `None` if one is malformed.
    fn read<'a>(claims: impl ExactSizeIterator<Item = (usize, &'a PublicKey, &'a [u8], &'a [u8])>) -> Option<Batch> {
        let mut transcript = Sha512::new();
        transcript.update(b"quorate Ed25519 batch 1");
        transcript.update((claims.len() as u64).to_le_bytes());
        let mut terms = Vec::with_capacity(claims.len());
        for (at, key, message, signature) in claims {
            terms.push(Term::read(at, key, message, signature, &mut transcript)?);
        }
        let coefficients = coefficients(&transcript.finalize().into(), terms.len());
        Some(Batch { terms, coefficients })
    }

    /// Returns the factors of the base point and of `keys` keys.
    fn static_scalars(&self, keys: usize) -> Vec<Scalar> {
        let mut scalars = vec![Scalar::ZERO; keys + 1];
        for (term, coefficient) in self.terms.iter().zip(&self.coefficients) {
            scalars[0] -= coefficient * term.response;
            scalars[term.key + 1] += coefficient * term.challenge;
        }
        scalars
    }
}

impl Term {
    /// Decodes one claim and adds it to the transcript; `None` if it is malformed.
    fn read(at: usize, key: &PublicKey, message: &[u8], signature: &[u8], transcript: &mut Sha512) -> Option<Term> {
        let signature: &[u8; SIGNATURE_BYTES] = signature.try_into().ok()?;
        let (commitment, response) = signature.split_at(SIGNATURE_BYTES / 2);
        let canonical = Scalar::from_canonical_bytes(response.try_into().expect("half a signature is a scalar long"));
        let hash = Sha512::new().chain_update(commitment).chain_update(key.encoded).chain_update(message).finalize();
        transcript.update(hash);
        transcript.update(response);
        Some(Term {
            key: at,
            commitment: CompressedEdwardsY::from_slice(commitment).ok()?.decompress()?,
            challenge: Scalar::from_bytes_mod_order_wide(&hash.into()),
            response: Option::from(canonical)?,
        })
    }
}

/// Expands the transcript into the batch's coefficients: 1, followed by 128-bit numbers.
fn coefficients(transcript: &[u8; 64], count: usize) -> Vec<Scalar> {
    let mut coefficients = Vec::with_capacity(count + 64 / COEFFICIENT_BYTES);
    coefficients.push(Scalar::ONE);
    for block in 0u64.. {
        if coefficients.len() >= count {
            break;
        }
        let hash = Sha512::new().chain_update(transcript).chain_update(block.to_le_bytes()).finalize();
        coefficients.extend(hash.chunks_exact(COEFFICIENT_BYTES).map(|chunk| {
            Scalar::from(u128::from_le_bytes(chunk.try_into().expect("a chunk is as long as a coefficient")))
        }));
    }
    coefficients.truncate(count);
    coefficients
}
