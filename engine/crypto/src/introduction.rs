//! Proofs that the client of a link holds a key, for replicas that answer only the questions of admitted clients.
//!
//! A bundle proves nothing here, because anybody who has seen it can repeat it. So a replica draws a challenge for each
//! link, and the client signs it. The signed statement names the cluster, the replica and the id that the link's client
//! claims, so a signature is worth nothing at another replica or on another link ([ADR
//! 099](../../../docs/adr/099-admission-covers-reads.md)).

use crate::client::ClientIdentity;
use crate::ed25519::{PUBLIC_KEY_BYTES, PublicKey};
use crate::error::CryptoError;
use bytes::Bytes;
use quorate_types::meter::{Primitive, measured};
use quorate_types::{ClientId, ClientRequest, ClusterId, Digest, Hasher, ReplicaId, encode_message, tags};
use zeroize::Zeroizing;

const STATEMENT_TAG: &[u8; 16] = b"quorate reader 1";

fn statement(cluster: &ClusterId, replica: ReplicaId, client: ClientId, challenge: &Digest) -> Vec<u8> {
    [STATEMENT_TAG, &cluster.0.0[..], &replica.0.to_le_bytes(), &client.0.to_le_bytes(), &challenge.0].concat()
}

/// Creates challenges, each for one link.
pub struct Challenges {
    secret: Zeroizing<[u8; 32]>,
    drawn: u64,
}

impl Challenges {
    /// Draws a secret from the operating system's randomness.
    ///
    /// # Errors
    /// [`CryptoError::Randomness`] if the system provides none.
    pub fn new() -> Result<Challenges, CryptoError> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret).map_err(|error| CryptoError::Randomness(error.to_string()))?;
        Ok(Challenges { secret, drawn: 0 })
    }

    /// Returns an unpredictable challenge that no other call returns.
    pub fn draw(&mut self) -> Digest {
        self.drawn += 1;
        let mut hasher = Hasher::new(tags::CHALLENGE);
        hasher.update(&*self.secret);
        hasher.update(&self.drawn.to_le_bytes());
        hasher.finish()
    }
}

impl ClientIdentity {
    /// Returns the message that proves possession of this identity's key to a replica, on a link with this challenge
    /// whose client claims the id `client`. `None` if the identity has no key.
    pub fn prove(&self, replica: ReplicaId, client: ClientId, challenge: &Digest) -> Option<Bytes> {
        let (key, cluster, credential) = self.prover()?;
        let signature = key.sign(&statement(cluster, replica, client, challenge));
        Some(encode_message(&ClientRequest::Prove { credential, signature }))
    }
}

/// Returns whether a signature proves that the client of a link holds the credential's key.
pub fn proves_key(
    cluster: &ClusterId,
    replica: ReplicaId,
    client: ClientId,
    challenge: &Digest,
    credential: &[u8],
    signature: &[u8],
) -> bool {
    let key = credential.first_chunk::<PUBLIC_KEY_BYTES>().and_then(PublicKey::decode).filter(|key| !key.is_weak());
    let statement = statement(cluster, replica, client, challenge);
    key.is_some_and(|key| measured(Primitive::VerifySingle, 1, || key.verify(&statement, signature)))
}
