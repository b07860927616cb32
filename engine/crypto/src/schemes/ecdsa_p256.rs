//! ECDSA over P-256 with SHA-256 (FIPS 186-5), with deterministic nonces (RFC 6979).

use super::separate::{self, VerifyingKey};
use crate::awslc::{P256Public, P256Secret};
use crate::error::CryptoError;
use crate::scheme::{Keys, PrivateKey, SEED_BYTES, Scheme, SchemeProfile};
use bytes::Bytes;
use quorate_types::{Committee, ReplicaId};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Length of a compressed point, in bytes.
const PUBLIC_KEY_BYTES: usize = 33;
/// Length of r and s together, in bytes.
const SIGNATURE_BYTES: usize = 64;

/// ECDSA over P-256. Of the two forms of a signature, only the one with low s is valid.
pub struct EcdsaP256;

static PROFILE: SchemeProfile = separate::profile(
    "ecdsa-p256",
    "ECDSA over P-256 with SHA-256, one signature at a time",
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
);

impl Scheme for EcdsaP256 {
    fn profile(&self) -> &SchemeProfile {
        &PROFILE
    }

    fn derive(&self, seed: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey> {
        let key = scalars(b"quorate P-256 key 1", seed).find_map(|scalar| P256Secret::decode(&scalar[..]));
        Box::new(key.expect("almost all 256-bit numbers are private keys"))
    }

    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>> {
        Some(Box::new(P256Secret::decode(secret)?))
    }

    fn keys(
        &self,
        committee: &Committee,
        _: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError> {
        separate::keys::<P256Public>(&PROFILE, committee)
    }
}

/// Derives candidates for a private key from a seed: 256-bit numbers. The key is the first one that the curve accepts.
pub(super) fn scalars(tag: &'static [u8], seed: &[u8]) -> impl Iterator<Item = Zeroizing<[u8; 32]>> {
    let start = Sha256::new().chain_update(tag).chain_update(seed);
    (0u8..=u8::MAX).map(move |attempt| Zeroizing::new(start.clone().chain_update([attempt]).finalize().into()))
}

impl PrivateKey for P256Secret {
    fn public_key(&self) -> Bytes {
        Bytes::copy_from_slice(P256Secret::public_key(self))
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&P256Secret::sign(self, message))
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.scalar().to_vec())
    }
}

impl VerifyingKey for P256Public {
    fn decode(encoded: &[u8]) -> Option<P256Public> {
        P256Public::decode(encoded)
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        P256Public::verify(self, message, signature)
    }
}
