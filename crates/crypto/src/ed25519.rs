//! Ed25519 by the rules of ZIP-215, one signature or a quorum of them at a time.
//!
//! # Which signatures are valid
//!
//! RFC 8032 leaves open whether a signature with a component of small order is valid, and libraries differ; some even differ from
//! themselves, accepting in a batch what they refuse alone. Replicas that disagree on one certificate fork, so here one rule holds
//! everywhere, that of [ZIP-215](https://zips.z.cash/zip-0215): A and R are any encodings that decode to a point, canonical or not; s
//! is less than the group order l; and `[8](sB - R - kA) = 0` with k = SHA-512(R, A, message). The factor 8 sends every component of
//! small order to zero, in a sum as in a single term, so that a batch accepts exactly what its members do.
//!
//! # Batches
//!
//! With `E_i = [8](s_i B - R_i - k_i A_i)`, which lies in the subgroup of prime order l, a batch is accepted if the sum of z_i E_i is zero.
//! If every E_i is zero, so is the sum: a batch never refuses what is valid. If some E_j with j > 0 is not zero, then for any choice of
//! the other coefficients at most one z_j below 2^128 makes the sum zero; if only E_0 is not zero, the sum is E_0, for z_0 = 1. So with
//! coefficients of 128 bits drawn after the batch is fixed, a bad batch passes with probability 2^-128.
//!
//! The coefficients come from no randomness device but, as in the Fiat-Shamir transform, from SHA-512 over the whole batch: for each
//! claim in order the full 64 bytes of SHA-512(R, A, message), which bind all three as they are hashed, and s. Changing any byte of any
//! claim draws all coefficients anew, so a forger can only try batches, 2^128 of them in expectation: as hard as breaking a key.
//! Every replica that checks the same batch computes the same, so a verdict is reproducible.

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint, VartimeEdwardsPrecomputation};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{IsIdentity, VartimePrecomputedMultiscalarMul};
use ed25519_zebra::{Signature, VerificationKey};
use sha2::{Digest, Sha512};

/// Bytes of a public key.
pub const PUBLIC_KEY_BYTES: usize = 32;
/// Bytes of a signature: R, then s.
pub const SIGNATURE_BYTES: usize = 64;
/// Bytes of one coefficient of a batch.
const COEFFICIENT_BYTES: usize = 16;

/// Public keys, decoded, with a table of multiples of each (about 10 kB a key) that makes checking many signatures at once cheap.
pub struct KeyTable {
    keys: Vec<Key>,
    /// Over the base point and then every key, in order.
    multiples: VartimeEdwardsPrecomputation,
}

struct Key {
    encoded: [u8; PUBLIC_KEY_BYTES],
    point: EdwardsPoint,
    alone: VerificationKey,
}

/// What a batch's equation needs of one claim.
struct Term {
    key: usize,
    commitment: EdwardsPoint,
    challenge: Scalar,
    response: Scalar,
}

impl KeyTable {
    /// Decodes keys by the rules of ZIP-215, which take small-order and non-canonical ones too; on failure says which is no point.
    pub fn new(encoded: &[[u8; PUBLIC_KEY_BYTES]]) -> Result<KeyTable, usize> {
        let mut keys = Vec::with_capacity(encoded.len());
        for (at, encoded) in encoded.iter().enumerate() {
            let point = CompressedEdwardsY(*encoded).decompress().ok_or(at)?;
            let alone = VerificationKey::try_from(*encoded).map_err(|_| at)?;
            keys.push(Key { encoded: *encoded, point, alone });
        }
        let points = std::iter::once(&ED25519_BASEPOINT_POINT).chain(keys.iter().map(|key| &key.point));
        let multiples = VartimeEdwardsPrecomputation::new(points);
        Ok(KeyTable { keys, multiples })
    }

    /// Whether a key has no component of large order, so that anybody can sign for it.
    pub fn is_weak(&self, key: usize) -> bool {
        self.keys[key].point.is_small_order()
    }

    /// One name for all encodings of a key and all keys that differ from it by a point of small order.
    pub(crate) fn canonical(&self, key: usize) -> [u8; PUBLIC_KEY_BYTES] {
        self.keys[key].point.mul_by_cofactor().compress().to_bytes()
    }

    /// Whether one signature is valid; false if there is no such key.
    pub fn verify(&self, key: usize, message: &[u8], signature: &[u8]) -> bool {
        let (Some(key), Ok(signature)) = (self.keys.get(key), <[u8; SIGNATURE_BYTES]>::try_from(signature)) else {
            return false;
        };
        key.alone.verify(&Signature::from_bytes(&signature), message).is_ok()
    }

    /// Whether all signatures are valid, each given as the key's position, the message and the signature: by one multiplication of many
    /// points. A key may occur more than once. Nothing claimed is nothing wrong.
    pub fn verify_many<'a>(&self, claims: impl ExactSizeIterator<Item = (usize, &'a [u8], &'a [u8])>) -> bool {
        let mut terms = Vec::with_capacity(claims.len());
        let mut transcript = Sha512::new();
        transcript.update(b"quorate Ed25519 batch 1");
        transcript.update((claims.len() as u64).to_le_bytes());
        for (key, message, signature) in claims {
            let Some(term) = self.term(key, message, signature, &mut transcript) else {
                return false;
            };
            terms.push(term);
        }
        let coefficients = coefficients(&transcript.finalize().into(), terms.len());
        let highest = terms.iter().map(|term| term.key).max().unwrap_or(0);
        let mut statics = vec![Scalar::ZERO; highest + 2];
        for (term, coefficient) in terms.iter().zip(&coefficients) {
            statics[0] -= coefficient * term.response;
            statics[term.key + 1] += coefficient * term.challenge;
        }
        let commitments = terms.iter().map(|term| term.commitment);
        let sum = self.multiples.vartime_mixed_multiscalar_mul(&statics, &coefficients, commitments);
        sum.mul_by_cofactor().is_identity()
    }

    /// Reads one claim and adds it to the transcript; nothing if it is malformed.
    fn term(&self, key: usize, message: &[u8], signature: &[u8], transcript: &mut Sha512) -> Option<Term> {
        let signature: &[u8; SIGNATURE_BYTES] = signature.try_into().ok()?;
        let (commitment, response) = signature.split_at(SIGNATURE_BYTES / 2);
        let known = self.keys.get(key)?;
        let canonical = Scalar::from_canonical_bytes(response.try_into().expect("half a signature is a scalar long"));
        let hash = Sha512::new().chain_update(commitment).chain_update(known.encoded).chain_update(message).finalize();
        transcript.update(hash);
        transcript.update(response);
        Some(Term {
            key,
            commitment: CompressedEdwardsY::from_slice(commitment).ok()?.decompress()?,
            challenge: Scalar::from_bytes_mod_order_wide(&hash.into()),
            response: Option::from(canonical)?,
        })
    }
}

/// The batch's coefficients: one, and then numbers of 128 bits expanded from the transcript.
fn coefficients(transcript: &[u8; 64], count: usize) -> Vec<Scalar> {
    let mut coefficients = Vec::with_capacity(count + 64 / COEFFICIENT_BYTES);
    coefficients.push(Scalar::ONE);
    for block in 0u64.. {
        if coefficients.len() >= count {
            break;
        }
        let hash = Sha512::new().chain_update(transcript).chain_update(block.to_le_bytes()).finalize();
        coefficients.extend(hash.chunks_exact(COEFFICIENT_BYTES).map(|chunk| {
            Scalar::from(u128::from_le_bytes(chunk.try_into().expect("the chunks have the size of a coefficient")))
        }));
    }
    coefficients.truncate(count);
    coefficients
}
