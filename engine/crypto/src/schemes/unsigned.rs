//! No signatures: proofs are empty and anybody can forge them. Only for measuring the cost of signing.

use crate::error::CryptoError;
use crate::scheme::{Claim, Effort, Keys, PrivateKey, ProofFault, SEED_BYTES, Scheme, SchemeProfile, SignatureSize};
use crate::statements::Statements;
use bytes::Bytes;
use quorate_types::{Committee, ReplicaId, Signers};
use zeroize::Zeroizing;

/// The scheme `none`.
pub struct Unsigned;

static PROFILE: SchemeProfile = SchemeProfile {
    name: "none",
    summary: "no signatures at all: a baseline to measure against",
    unforgeable: false,
    // Every proof is accepted, so that every protocol runs.
    transferable: true,
    attributable: false,
    aggregatable: false,
    batchable: true,
    needs_possession: false,
    weakness: None,
    public_key_bytes: 0,
    signature: SignatureSize::Fixed(0),
};

impl Scheme for Unsigned {
    fn profile(&self) -> &SchemeProfile {
        &PROFILE
    }

    fn derive(&self, _seed: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey> {
        Box::new(NoSecret)
    }

    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>> {
        secret.is_empty().then(|| Box::new(NoSecret) as Box<dyn PrivateKey>)
    }

    fn keys(
        &self,
        committee: &Committee,
        _holder: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError> {
        Ok(Box::new(Members(committee.len())))
    }
}

struct NoSecret;

impl PrivateKey for NoSecret {
    fn public_key(&self) -> Bytes {
        Bytes::new()
    }

    fn sign(&self, _message: &[u8]) -> Bytes {
        Bytes::new()
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::default()
    }
}

struct Members(usize);

impl Keys for Members {
    fn verify(&self, (replica, _, signature): Claim<'_>) -> bool {
        replica.index() < self.0 && signature.is_empty()
    }

    fn assemble(&self, _claims: &[Claim<'_>]) -> Bytes {
        Bytes::new()
    }

    fn verify_proof(&self, _signers: &Signers, _statements: &Statements, proof: &[u8]) -> Result<Effort, ProofFault> {
        proof.is_empty().then_some(Effort::default()).ok_or(ProofFault::Length { expected: 0 })
    }
}
