//! A committee's public keys.

use crate::error::{CryptoError, KeyFault, KeyRole};
use crate::key_pair::KeyPair;
use crate::scheme::{Claim, Keys, ProofFault, Recipients, SchemeKind};
use crate::statements::Statements;
use bytes::Bytes;
use quorate_types::{ClusterId, Committee, Member, Quorum, ReplicaId, Signers};
use std::sync::Arc;

/// Every member's public key, decoded once. It never changes, so threads of one replica share it, and so do replicas in one process where
/// nothing in it is secret.
pub struct Keyring {
    cluster: ClusterId,
    quorum: Quorum,
    kind: SchemeKind,
    keys: Box<dyn Keys>,
}

impl Keyring {
    /// Decodes and checks the committee's keys, for somebody who has none of them.
    ///
    /// # Errors
    /// [`CryptoError`] naming the replica whose key has the wrong length, is unusable, or is another's too.
    pub fn new(kind: SchemeKind, committee: &Committee) -> Result<Keyring, CryptoError> {
        Keyring::decode(kind, committee, None)
    }

    /// The keys that all members can share, if none of them is a secret.
    ///
    /// # Errors
    /// [`CryptoError`] as above.
    pub fn shared(kind: SchemeKind, committee: &Committee) -> Result<Option<Arc<Keyring>>, CryptoError> {
        kind.profile().has_public_keys_only().then(|| Keyring::new(kind, committee).map(Arc::new)).transpose()
    }

    /// The keys that a member checks with, who may share secrets with the others.
    ///
    /// # Errors
    /// [`CryptoError`] as above.
    pub fn of_member(
        kind: SchemeKind,
        committee: &Committee,
        me: ReplicaId,
        key: &KeyPair,
    ) -> Result<Keyring, CryptoError> {
        Keyring::decode(kind, committee, Some((me, key)))
    }

    fn decode(
        kind: SchemeKind,
        committee: &Committee,
        holder: Option<(ReplicaId, &KeyPair)>,
    ) -> Result<Keyring, CryptoError> {
        assert_eq!(
            committee.len(),
            committee.quorum.replicas(),
            "the committee's quorum is for another number of members"
        );
        for (replica, member) in committee.replicas().zip(&committee.members) {
            check_member(kind, committee, replica, member).map_err(|fault| CryptoError::PublicKey {
                replica,
                role: KeyRole::Voting,
                fault,
            })?;
        }
        let keys = kind.scheme().keys(committee, holder.map(|(me, key)| (me, key.private_key())))?;
        Ok(Keyring { cluster: committee.cluster, quorum: committee.quorum, kind, keys })
    }

    /// The scheme.
    pub fn kind(&self) -> SchemeKind {
        self.kind
    }

    /// The cluster that statements are made in.
    pub fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    /// n and f.
    pub fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// Whether there is a member of that id.
    pub fn is_member(&self, replica: ReplicaId) -> bool {
        replica.index() < self.quorum.replicas()
    }

    /// A member's signature for those who are to check it.
    pub fn sign(&self, key: &KeyPair, message: &[u8], to: Recipients) -> Bytes {
        self.keys.sign(key.private_key(), message, to)
    }

    /// Whether `signature` is that of member `replica` on `message`.
    pub fn verify(&self, replica: ReplicaId, message: &[u8], signature: &[u8]) -> bool {
        self.keys.verify((replica, message, signature))
    }

    /// Whether all claims hold, checked together; exactly if each would hold alone. Claims of strangers never do.
    pub fn verify_many(&self, claims: &[Claim<'_>]) -> bool {
        self.keys.verify_many(claims)
    }

    /// A proof of claims that hold, by signers in ascending order.
    pub fn assemble(&self, claims: &[Claim<'_>]) -> Bytes {
        self.keys.assemble(claims)
    }

    /// Whether a proof of members holds.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify_proof(&self, signers: &Signers, statements: &Statements, proof: &[u8]) -> Result<(), ProofFault> {
        self.keys.verify_proof(signers, statements, proof)
    }
}

/// Checks the parts of a voting key that need no decoding: its length, that no member before has it too, and its proof of possession.
fn check_member(kind: SchemeKind, committee: &Committee, me: ReplicaId, member: &Member) -> Result<(), KeyFault> {
    let Member { voting_key, possession, .. } = member;
    let (expected, found) = (kind.profile().public_key_bytes, voting_key.len());
    if expected != found {
        return Err(KeyFault::Length { scheme: kind.name(), expected, found });
    }
    let shared = committee.members[..me.index()].iter().position(|earlier| earlier.voting_key == *voting_key);
    if let Some(first) = shared.filter(|_| expected > 0) {
        return Err(KeyFault::Shared { replica: ReplicaId(first as u16), role: KeyRole::Voting });
    }
    if kind.profile().needs_possession && possession.is_empty() {
        return Err(KeyFault::NoPossession(kind.name()));
    }
    if !kind.scheme().verify_possession(voting_key, possession) {
        return Err(KeyFault::WrongPossession(kind.name()));
    }
    Ok(())
}
