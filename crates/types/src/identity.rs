//! Signing and checking as the layers below consensus see them: a channel's handshake proves who is at the other end
//! without knowing which scheme the cluster uses.

use crate::ids::ReplicaId;
use bytes::Bytes;

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
