//! A committee's public voting keys.

use crate::error::{CryptoError, KeyFault, KeyRole};
use crate::key_pair::KeyPair;
use crate::scheme::{Claim, Effort, Keys, ProofFault, Proven, Recipients, SchemeKind};
use crate::statements::Statements;
use bytes::Bytes;
use quorate_types::meter::{Primitive, measured};
use quorate_types::{Committee, EpochId, Member, Quorum, ReplicaId, Signers};
use std::sync::Arc;

/// All members' voting keys, decoded once. A keyring is immutable, so a replica's threads share it. The replicas of a
/// process share it too if it contains no secrets.
pub struct Keyring {
    epoch: EpochId,
    quorum: Quorum,
    kind: SchemeKind,
    keys: Box<dyn Keys>,
}

impl Keyring {
    /// Decodes and checks the committee's keys and proofs of possession, for use by a non-member.
    ///
    /// # Errors
    /// [`CryptoError::PublicKey`] with the replica whose key or proof is unusable, or whose key another member also
    /// has.
    pub fn new(kind: SchemeKind, committee: &Committee) -> Result<Keyring, CryptoError> {
        Keyring::decode(kind, committee, None)
    }

    /// Decodes the keys for all members of a process to share; `None` if members hold secrets.
    pub fn shared(kind: SchemeKind, committee: &Committee) -> Result<Option<Arc<Keyring>>, CryptoError> {
        kind.profile().has_public_keys_only().then(|| Keyring::new(kind, committee).map(Arc::new)).transpose()
    }

    /// Decodes the keys for use by one member, which may share secrets with the others.
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
        assert_eq!(committee.len(), committee.quorum.replicas(), "the quorum is for another committee size");
        for (replica, member) in committee.replicas().zip(&committee.members) {
            check_member(kind, committee, replica, member).map_err(|fault| CryptoError::PublicKey {
                replica,
                role: KeyRole::Voting,
                fault,
            })?;
        }
        let keys = kind.scheme().keys(committee, holder.map(|(me, key)| (me, key.private_key())))?;
        Ok(Keyring { epoch: committee.epoch, quorum: committee.quorum, kind, keys })
    }

    pub fn kind(&self) -> SchemeKind {
        self.kind
    }

    /// Returns the epoch named in statements.
    pub fn epoch(&self) -> &EpochId {
        &self.epoch
    }

    pub fn quorum(&self) -> Quorum {
        self.quorum
    }

    pub fn is_member(&self, replica: ReplicaId) -> bool {
        replica.index() < self.quorum.replicas()
    }

    /// Signs with a private key for the recipients.
    pub fn sign(&self, key: &KeyPair, message: &[u8], to: Recipients) -> Bytes {
        let signatures = if self.kind.profile().has_public_keys_only() { 1 } else { self.quorum.replicas() };
        self.measured(self.kind.signs_by(), signatures, || self.keys.sign(key.private_key(), message, to))
    }

    pub fn verify(&self, replica: ReplicaId, message: &[u8], signature: &[u8]) -> bool {
        let primitive = self.kind.verifies_by(1, false);
        self.measured(primitive, 1, || self.keys.verify((replica, message, signature)))
    }

    /// Runs `work` and meters it, except in schemes without signatures.
    fn measured<T>(&self, primitive: Primitive, items: usize, work: impl FnOnce() -> T) -> T {
        if self.kind.profile().unforgeable { measured(primitive, items, work) } else { work() }
    }

    /// Verifies claims in one batch; true exactly if each claim is valid on its own. Claims about non-members are never
    /// valid.
    pub fn verify_many(&self, claims: &[Claim<'_>]) -> bool {
        let primitive = self.kind.verifies_by(claims.len(), false);
        self.measured(primitive, claims.len(), || self.keys.verify_many(claims))
    }

    /// Verifies claims by different signers, in ascending order, and creates their proof.
    pub fn prove(&self, claims: &[Claim<'_>]) -> Proven {
        let primitive = self.kind.verifies_by(claims.len(), false);
        self.measured(primitive, claims.len(), || self.keys.prove(claims))
    }

    /// Creates a proof from valid claims, in ascending order of signers.
    pub fn assemble(&self, claims: &[Claim<'_>]) -> Bytes {
        self.keys.assemble(claims)
    }

    /// Verifies a proof; all signers must be members.
    pub fn verify_proof(&self, signers: &Signers, statements: &Statements, proof: &[u8]) -> Result<Effort, ProofFault> {
        let primitive = self.kind.verifies_by(signers.len(), true);
        self.measured(primitive, signers.len(), || self.keys.verify_proof(signers, statements, proof))
    }

    /// Adds up the keys of signers like the verification of a proof, to measure the operations.
    pub fn add_up(&self, signers: &Signers) -> Effort {
        self.keys.add_up(signers)
    }
}

/// Checks the properties of a voting key that need no decoding: its length, its proof of possession, and its uniqueness
/// among the earlier members.
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
