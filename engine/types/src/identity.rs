//! Properties of signatures, and handshake keys, for layers that are independent of signature schemes.

use crate::ids::ReplicaId;
use bytes::Bytes;

/// Lengths of a cluster's signatures and proofs, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProofShape {
    pub signature_bytes: usize,
    /// Whether a proof is one value for any number of signers. Otherwise it is the list of their signatures.
    pub is_aggregate: bool,
}

impl ProofShape {
    /// Returns the length of a proof of `signers` signers.
    pub fn proof_bytes(self, signers: usize) -> usize {
        if self.is_aggregate { self.signature_bytes } else { signers * self.signature_bytes }
    }
}

/// Properties that a protocol requires of signatures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProofRequirements {
    /// Whether the receiver of a signature or a proof must be able to convince others with it.
    pub transferable: bool,
}

/// One replica's private identity key.
pub trait Signer: Send + Sync {
    fn replica(&self) -> ReplicaId;
    /// Signs bytes, which must begin with a tag unique to this kind of statement.
    fn sign(&self, message: &[u8]) -> Bytes;
}

/// All members' public identity keys.
pub trait Verifier: Send + Sync {
    /// Verifies `replica`'s signature of `message`; false if it is not a member.
    fn verify(&self, replica: ReplicaId, message: &[u8], signature: &[u8]) -> bool;
}
