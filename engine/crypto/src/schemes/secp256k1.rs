//! ECDSA over secp256k1 with SHA-256, with deterministic nonces (RFC 6979).

use super::ecdsa_p256::scalars;
use super::separate::{self, VerifyingKey};
use crate::error::CryptoError;
use crate::scheme::{Keys, PrivateKey, SEED_BYTES, Scheme, SchemeProfile};
use ::secp256k1::ecdsa::Signature;
use ::secp256k1::{Message, PublicKey, SecretKey};
use bytes::Bytes;
use quorate_types::{Committee, ReplicaId};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Length of a compressed point, in bytes.
const PUBLIC_KEY_BYTES: usize = 33;
/// Length of r and s together, in bytes.
const SIGNATURE_BYTES: usize = 64;
const SCALAR_BYTES: usize = 32;

/// ECDSA over secp256k1. Of the two forms of a signature, only the one with low s is valid.
pub struct Secp256k1;

static PROFILE: SchemeProfile = separate::profile(
    "secp256k1",
    "ECDSA over secp256k1 with SHA-256, one signature at a time",
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
);

impl Scheme for Secp256k1 {
    fn profile(&self) -> &SchemeProfile {
        &PROFILE
    }

    fn derive(&self, seed: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey> {
        let key = scalars(b"quorate secp256k1 key 1", seed).find_map(|scalar| Key::new(&scalar));
        Box::new(key.expect("almost all 256-bit numbers are private keys"))
    }

    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>> {
        let scalar = Zeroizing::new(<[u8; SCALAR_BYTES]>::try_from(secret).ok()?);
        Some(Box::new(Key::new(&scalar)?))
    }

    fn keys(
        &self,
        committee: &Committee,
        _: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError> {
        separate::keys::<PublicKey>(&PROFILE, committee)
    }
}

/// A private key, boxed so that moving it leaves no copy of the secret in memory.
struct Key(Box<SecretKey>);

impl Key {
    fn new(scalar: &[u8; SCALAR_BYTES]) -> Option<Key> {
        Some(Key(Box::new(SecretKey::from_secret_bytes(*scalar).ok()?)))
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.non_secure_erase();
    }
}

fn digest(message: &[u8]) -> Message {
    Message::from_digest(Sha256::digest(message).into())
}

impl PrivateKey for Key {
    fn public_key(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0.public_key().serialize())
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&self.0.sign_ecdsa(digest(message)).serialize_compact())
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.as_secret_bytes().to_vec())
    }
}

impl VerifyingKey for PublicKey {
    fn decode(encoded: &[u8]) -> Option<PublicKey> {
        PublicKey::from_byte_array_compressed(*<&[u8; PUBLIC_KEY_BYTES]>::try_from(encoded).ok()?).ok()
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_compact(signature)
            .is_ok_and(|signature| PublicKey::verify(self, digest(message), &signature).is_ok())
    }
}
