//! Private keys with their public keys.

use crate::error::{CryptoError, KeyRole};
use crate::scheme::{PrivateKey, SEED_BYTES, SchemeKind};
use bytes::Bytes;
use quorate_types::digest::encode_hex;
use quorate_types::meter::measured;
use quorate_types::{Committee, ReplicaId};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// A private key and its public key. The private key is never printed, and is wiped from memory when its last clone is
/// dropped.
#[derive(Clone)]
pub struct KeyPair {
    kind: SchemeKind,
    public_key: Bytes,
    private_key: Arc<dyn PrivateKey>,
}

impl KeyPair {
    /// Generates a key from the operating system's randomness.
    ///
    /// # Errors
    /// [`CryptoError::Randomness`] if the system provides none.
    pub fn generate(kind: SchemeKind) -> Result<KeyPair, CryptoError> {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        getrandom::fill(seed.as_mut()).map_err(|error| CryptoError::Randomness(error.to_string()))?;
        Ok(KeyPair::from_seed(kind, *seed))
    }

    /// Derives a key from a seed, for tests and reproducible clusters; anybody who knows the seed has the key.
    pub fn from_seed(kind: SchemeKind, seed: [u8; SEED_BYTES]) -> KeyPair {
        let seed = Zeroizing::new(seed);
        KeyPair::new(kind, kind.scheme().derive(&seed))
    }

    /// Decodes a key from a key file; `None` if it is not a private key of the scheme.
    pub(crate) fn decode(kind: SchemeKind, secret: &[u8]) -> Option<KeyPair> {
        Some(KeyPair::new(kind, kind.scheme().decode(secret)?))
    }

    fn new(kind: SchemeKind, private_key: Box<dyn PrivateKey>) -> KeyPair {
        KeyPair { kind, public_key: private_key.public_key(), private_key: private_key.into() }
    }

    pub fn kind(&self) -> SchemeKind {
        self.kind
    }

    /// Returns the public key; empty in the scheme `none`.
    pub fn public_key(&self) -> Bytes {
        self.public_key.clone()
    }

    /// Returns a proof of possession of the private key, for the committee; empty if the scheme does not require one.
    pub fn prove_possession(&self) -> Bytes {
        self.private_key.prove_possession()
    }

    /// Checks that this is the private key of member `me` in the scheme `kind`.
    pub(crate) fn check(
        &self,
        role: KeyRole,
        kind: SchemeKind,
        committee: &Committee,
        me: ReplicaId,
    ) -> Result<(), CryptoError> {
        let member = committee.member(me).ok_or(CryptoError::Stranger { replica: me, members: committee.len() })?;
        if self.kind != kind {
            return Err(CryptoError::Scheme { replica: me, role, expected: kind.name(), found: self.kind.name() });
        }
        let listed = match role {
            KeyRole::Identity => &member.identity_key,
            KeyRole::Voting => &member.voting_key,
        };
        if self.public_key != *listed {
            let (expected, found) = (encode_hex(listed), encode_hex(&self.public_key));
            return Err(CryptoError::KeyMismatch { replica: me, role, expected, found });
        }
        Ok(())
    }

    /// Signs bytes; the signature is empty in the scheme `none`. Signing is deterministic.
    pub fn sign(&self, message: &[u8]) -> Bytes {
        if !self.kind.profile().unforgeable {
            return self.private_key.sign(message);
        }
        measured(self.kind.signs_by(), 1, || self.private_key.sign(message))
    }

    pub fn private_key(&self) -> &dyn PrivateKey {
        &*self.private_key
    }

    /// Encodes the private key for a key file; empty in the scheme `none`.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        self.private_key.encode()
    }

    /// Stands for a key pair whose private key is in another process, which signs. It panics if it has to sign itself.
    pub fn held_elsewhere(kind: SchemeKind, public_key: Bytes) -> KeyPair {
        KeyPair::new(kind, Box::new(HeldElsewhere(public_key)))
    }
}

/// A private key in another process.
struct HeldElsewhere(Bytes);

impl PrivateKey for HeldElsewhere {
    fn public_key(&self) -> Bytes {
        self.0.clone()
    }

    fn sign(&self, _message: &[u8]) -> Bytes {
        panic!("another process holds the private key")
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        panic!("another process holds the private key")
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} key pair of the public key {}", self.kind(), encode_hex(&self.public_key))
    }
}
