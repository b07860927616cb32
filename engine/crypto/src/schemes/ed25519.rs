//! Ed25519: one signature per signer, verified in batches.

use super::{assemble_list, verify_list};
use crate::awslc::Ed25519Secret;
use crate::ed25519::{KeyTable, PUBLIC_KEY_BYTES, PublicKey, SIGNATURE_BYTES};
use crate::error::{CryptoError, KeyFault, KeyRole};
use crate::scheme::{
    Claim, Effort, Keys, PrivateKey, ProofFault, SEED_BYTES, Scheme, SchemeKind, SchemeProfile, SignatureSize,
};
use crate::statements::Statements;
use bytes::Bytes;
use quorate_types::{Committee, ReplicaId, Signers};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// Ed25519 by the rules of ZIP-215; a certificate lists the signatures, verified in one batch.
pub struct Ed25519;

static PROFILE: SchemeProfile = SchemeProfile {
    name: "ed25519",
    summary: "Ed25519 by the rules of ZIP-215, verified a quorum at a time",
    unforgeable: true,
    transferable: true,
    attributable: true,
    aggregatable: false,
    batchable: true,
    needs_possession: false,
    weakness: None,
    public_key_bytes: PUBLIC_KEY_BYTES,
    signature: SignatureSize::Fixed(SIGNATURE_BYTES),
};

impl Scheme for Ed25519 {
    fn profile(&self) -> &SchemeProfile {
        &PROFILE
    }

    /// The seed is itself the 32-byte private key of RFC 8032.
    fn derive(&self, seed: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey> {
        Box::new(Ed25519Secret::new(seed))
    }

    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>> {
        let seed = Zeroizing::new(<[u8; SEED_BYTES]>::try_from(secret).ok()?);
        Some(self.derive(&seed))
    }

    fn keys(
        &self,
        committee: &Committee,
        _: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError> {
        let keys = decode_members(KeyRole::Voting, committee.members.iter().map(|member| &member.voting_key))?;
        Ok(Box::new(KeyTable::new(keys)))
    }
}

/// Decodes the committee's keys of one role, by replica. Each must be a point of large order, and differ from the
/// others by more than a small-order point.
pub(crate) fn decode_members<'a>(
    role: KeyRole,
    encoded: impl Iterator<Item = &'a Bytes>,
) -> Result<Vec<PublicKey>, CryptoError> {
    let mut owners = BTreeMap::new();
    let decode = |(replica, encoded): (ReplicaId, &'a Bytes)| {
        let fail = |fault| CryptoError::PublicKey { replica, role, fault };
        let found = encoded.len();
        let length = |_| KeyFault::Length { scheme: SchemeKind::ED25519.name(), expected: PUBLIC_KEY_BYTES, found };
        let key = <&[u8; PUBLIC_KEY_BYTES]>::try_from(&encoded[..]).map_err(length).map_err(fail)?;
        let key = PublicKey::decode(key).ok_or(fail(KeyFault::NotAPoint))?;
        if key.is_weak() {
            return Err(fail(KeyFault::Weak));
        }
        match owners.insert(key.canonical(), replica) {
            Some(first) => Err(fail(KeyFault::Shared { replica: first, role })),
            None => Ok(key),
        }
    };
    (0..).map(ReplicaId).zip(encoded).map(decode).collect()
}

impl PrivateKey for Ed25519Secret {
    fn public_key(&self) -> Bytes {
        Bytes::copy_from_slice(Ed25519Secret::public_key(self))
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&Ed25519Secret::sign(self, message))
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.seed().to_vec())
    }
}

impl Keys for KeyTable {
    fn verify(&self, (replica, message, signature): Claim<'_>) -> bool {
        KeyTable::verify(self, replica.index(), message, signature)
    }

    fn verify_many(&self, claims: &[Claim<'_>]) -> bool {
        match claims {
            [claim] => Keys::verify(self, *claim),
            _ => KeyTable::verify_many(self, claims.iter().map(|claim| (claim.0.index(), claim.1, claim.2))),
        }
    }

    fn assemble(&self, claims: &[Claim<'_>]) -> Bytes {
        assemble_list(claims)
    }

    fn verify_proof(&self, signers: &Signers, statements: &Statements, proof: &[u8]) -> Result<Effort, ProofFault> {
        verify_list(signers, statements, proof, SIGNATURE_BYTES, |claims| Keys::verify_many(self, claims))
    }
}
