//! Schemes without batches: a certificate lists signatures, which are verified one by one.

use super::{assemble_list, verify_list};
use crate::error::{CryptoError, KeyFault, KeyRole};
use crate::scheme::{Claim, Effort, Keys, ProofFault, SchemeProfile, SignatureSize};
use crate::statements::Statements;
use bytes::Bytes;
use quorate_types::{Committee, Signers};

/// Returns the profile of such a scheme with these key and signature lengths.
pub(super) const fn profile(
    name: &'static str,
    summary: &'static str,
    public_key_bytes: usize,
    signature_bytes: usize,
) -> SchemeProfile {
    SchemeProfile {
        name,
        summary,
        unforgeable: true,
        transferable: true,
        attributable: true,
        aggregatable: false,
        batchable: false,
        needs_possession: false,
        weakness: None,
        public_key_bytes,
        signature: SignatureSize::Fixed(signature_bytes),
    }
}

/// A public key that verifies one signature at a time. Equal keys have equal encodings.
pub(super) trait VerifyingKey: Sized + Send + Sync + 'static {
    fn decode(encoded: &[u8]) -> Option<Self>;

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool;
}

/// A committee's keys, and the length of a signature.
struct SeparateKeys<K> {
    keys: Vec<K>,
    signature_bytes: usize,
}

/// Decodes the voting keys of a committee.
pub(super) fn keys<K: VerifyingKey>(
    profile: &SchemeProfile,
    committee: &Committee,
) -> Result<Box<dyn Keys>, CryptoError> {
    let decode = |(replica, encoded)| {
        let fault = KeyFault::NotAKey(profile.name);
        K::decode(encoded).ok_or(CryptoError::PublicKey { replica, role: KeyRole::Voting, fault })
    };
    let encoded = committee.members.iter().map(|member| &member.voting_key[..]);
    let keys = committee.replicas().zip(encoded).map(decode).collect::<Result<Vec<K>, CryptoError>>()?;
    Ok(Box::new(SeparateKeys { keys, signature_bytes: profile.signature_bytes(committee.len()) }))
}

impl<K: VerifyingKey> Keys for SeparateKeys<K> {
    fn verify(&self, (replica, message, signature): Claim<'_>) -> bool {
        self.keys.get(replica.index()).is_some_and(|key| key.verify(message, signature))
    }

    fn assemble(&self, claims: &[Claim<'_>]) -> Bytes {
        assemble_list(claims)
    }

    fn verify_proof(&self, signers: &Signers, statements: &Statements, proof: &[u8]) -> Result<Effort, ProofFault> {
        verify_list(signers, statements, proof, self.signature_bytes, |claims| self.verify_many(claims))
    }
}
