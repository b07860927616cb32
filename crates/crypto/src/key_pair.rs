//! A replica's private key.

use crate::error::CryptoError;
use crate::scheme::SchemeKind;
use bytes::Bytes;
use ed25519_zebra::{SigningKey, VerificationKeyBytes};
use quorate_types::digest::encode_hex;
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of the seed that a private key is derived from.
pub const SEED_BYTES: usize = 32;

/// A private key and the public key that goes with it. It is wiped from memory when dropped, and never printed.
pub struct KeyPair {
    public_key: Bytes,
    secret: Secret,
}

/// The key sits in a box of its own, so that moving a [`KeyPair`] leaves no copy of it behind.
enum Secret {
    Ed25519(Box<Zeroizing<SigningKey>>),
    None,
}

impl KeyPair {
    /// A new key from the operating system's randomness.
    ///
    /// # Errors
    /// [`CryptoError::Randomness`] if there is none to be had.
    pub fn generate(kind: SchemeKind) -> Result<KeyPair, CryptoError> {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        if kind != SchemeKind::None {
            getrandom::fill(seed.as_mut()).map_err(|error| CryptoError::Randomness(error.to_string()))?;
        }
        Ok(KeyPair::from_seed(kind, *seed))
    }

    /// The key that a seed stands for: the 32-byte private key of RFC 8032 itself. For tests, key files and testnets that are to be
    /// reproduced; whoever knows the seed has the key.
    pub fn from_seed(kind: SchemeKind, seed: [u8; SEED_BYTES]) -> KeyPair {
        let seed = Zeroizing::new(seed);
        match kind {
            SchemeKind::Ed25519 => {
                let key = Box::new(Zeroizing::new(SigningKey::from_bytes(&seed)));
                let public_key = <[u8; 32]>::from(VerificationKeyBytes::from(&**key));
                KeyPair { public_key: Bytes::copy_from_slice(&public_key), secret: Secret::Ed25519(key) }
            }
            SchemeKind::None => KeyPair { public_key: Bytes::new(), secret: Secret::None },
        }
    }

    /// The scheme it signs by.
    pub fn kind(&self) -> SchemeKind {
        match self.secret {
            Secret::Ed25519(_) => SchemeKind::Ed25519,
            Secret::None => SchemeKind::None,
        }
    }

    /// What the committee lists for this key: 32 bytes for Ed25519, none for the scheme `none`.
    pub fn public_key(&self) -> Bytes {
        self.public_key.clone()
    }

    /// Signs bytes: 64 bytes for Ed25519, none for the scheme `none`. The same message has the same signature always.
    pub fn sign(&self, message: &[u8]) -> Bytes {
        match &self.secret {
            Secret::Ed25519(key) => Bytes::copy_from_slice(&key.sign(message).to_bytes()),
            Secret::None => Bytes::new(),
        }
    }

    /// The seed, for a key file; none in the scheme `none`.
    pub(crate) fn seed(&self) -> Option<&[u8; SEED_BYTES]> {
        match &self.secret {
            Secret::Ed25519(key) => Some(key.as_bytes()),
            Secret::None => None,
        }
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} key pair of the public key {}", self.kind(), encode_hex(&self.public_key))
    }
}
