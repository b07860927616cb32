//! Signing and checking as the layers below consensus see them: a channel's handshake proves who is at the other end
//! without knowing which scheme the cluster uses.

use crate::ids::ReplicaId;
use bytes::Bytes;

/// How long the signatures and proofs of a cluster are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProofShape {
    /// Bytes of one signature.
    pub signature_bytes: usize,
    /// Whether a proof is one value, however many signed; else it is the list of their signatures.
    pub is_aggregate: bool,
}

impl ProofShape {
    /// Bytes of a proof of so many signers.
    pub fn proof_bytes(self, signers: usize) -> usize {
        if self.is_aggregate { self.signature_bytes } else { signers * self.signature_bytes }
    }
}

/// What somebody asks of signatures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProofRequirements {
    /// Whoever receives a signature or a proof can convince others with it.
    pub transferable: bool,
}

/// Holds one replica's private key.
pub trait Signer: Send + Sync {
    /// Whose key it is.
    fn replica(&self) -> ReplicaId;
    /// Signs bytes that begin with a tag of their own.
    fn sign(&self, message: &[u8]) -> Bytes;
}

/// Knows every member's public key.
pub trait Verifier: Send + Sync {
    /// Whether `signature` is `replica`'s on `message`; false too for a stranger.
    fn verify(&self, replica: ReplicaId, message: &[u8], signature: &[u8]) -> bool;
}
