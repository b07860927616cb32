//! Identity keys, which prove a replica's identity in handshakes, independently of the voting scheme.

use crate::ed25519::PublicKey;
use crate::error::{CryptoError, KeyFault, KeyRole};
use crate::key_pair::KeyPair;
use crate::scheme::{SEED_BYTES, SchemeKind};
use crate::schemes::decode_members;
use bytes::Bytes;
use quorate_types::digest::Hasher;
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{Address, Committee, Member, ReplicaId, tags};
use zeroize::Zeroizing;

/// The scheme of identity keys.
pub const IDENTITY_SCHEME: SchemeKind = SchemeKind::ED25519;

/// One replica's private keys. Handshakes never use the voting key, so the voting scheme may be slow or
/// non-transferable, and replicas are authenticated even in a cluster without signatures.
#[derive(Clone, Debug)]
pub struct ReplicaKeys {
    pub identity: KeyPair,
    pub voting: KeyPair,
}

impl ReplicaKeys {
    /// Generates keys from the operating system's randomness.
    ///
    /// # Errors
    /// [`CryptoError::Randomness`] if the system provides none.
    pub fn generate(scheme: SchemeKind) -> Result<ReplicaKeys, CryptoError> {
        Ok(ReplicaKeys { identity: KeyPair::generate(IDENTITY_SCHEME)?, voting: KeyPair::generate(scheme)? })
    }

    /// Derives both keys from a seed, for tests and reproducible clusters; anybody who knows the seed has the keys.
    pub fn from_seed(scheme: SchemeKind, seed: [u8; SEED_BYTES]) -> ReplicaKeys {
        let seed = Zeroizing::new(seed);
        let mut hasher = Hasher::new(tags::IDENTITY_SEED);
        hasher.update(&*seed);
        let identity = KeyPair::from_seed(IDENTITY_SCHEME, hasher.finish().0);
        ReplicaKeys { identity, voting: KeyPair::from_seed(scheme, *seed) }
    }

    /// Returns the committee's entry for these keys.
    pub fn member(&self, address: Address) -> Member {
        Member {
            address,
            identity_key: self.identity.public_key(),
            voting_key: self.voting.public_key(),
            possession: self.voting.prove_possession(),
        }
    }
}

/// A replica's private identity key.
pub struct Identity {
    replica: ReplicaId,
    key: KeyPair,
}

impl Identity {
    /// Checks that the key is the committee's key for `me`.
    ///
    /// # Errors
    /// [`CryptoError`] if it is not, or if `me` is not a member.
    pub fn new(committee: &Committee, me: ReplicaId, key: KeyPair) -> Result<Identity, CryptoError> {
        key.check(KeyRole::Identity, IDENTITY_SCHEME, committee, me)?;
        Ok(Identity { replica: me, key })
    }
}

impl Signer for Identity {
    fn replica(&self) -> ReplicaId {
        self.replica
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        self.key.sign(message)
    }
}

/// All members' public identity keys.
pub struct Identities(Vec<PublicKey>);

impl Identities {
    /// Decodes the committee's identity keys.
    ///
    /// # Errors
    /// [`CryptoError::PublicKey`] with the replica whose key is unusable, or is also another member's identity key or
    /// any member's voting key.
    pub fn new(committee: &Committee) -> Result<Identities, CryptoError> {
        let members = &committee.members;
        let keys = decode_members(KeyRole::Identity, members.iter().map(|member| &member.identity_key))?;
        for (replica, member) in committee.replicas().zip(members) {
            let voter = members.iter().position(|other| other.voting_key == member.identity_key);
            if let Some(voter) = voter {
                let fault = KeyFault::Shared { replica: ReplicaId(voter as u16), role: KeyRole::Voting };
                return Err(CryptoError::PublicKey { replica, role: KeyRole::Identity, fault });
            }
        }
        Ok(Identities(keys))
    }
}

impl Verifier for Identities {
    fn verify(&self, replica: ReplicaId, message: &[u8], signature: &[u8]) -> bool {
        self.0.get(replica.index()).is_some_and(|key| key.verify(message, signature))
    }
}
