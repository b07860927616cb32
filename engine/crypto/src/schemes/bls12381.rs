//! BLS multi-signatures over BLS12-381: a certificate has one signature for any number of signers.

use crate::bisect::find_bad;
use crate::bls12381::{
    Claim as Summand, KeyTable, POSSESSION, PUBLIC_KEY_BYTES, PrivateKey as Secret, PublicKey, SIGNATURE_BYTES,
    SIGNATURES, aggregate, key_additions,
};
use crate::error::{CryptoError, KeyFault, KeyRole};
use crate::scheme::{
    Claim, Effort, Keys, PrivateKey, ProofFault, Proven, SEED_BYTES, Scheme, SchemeKind, SchemeProfile, SignatureSize,
};
use crate::statements::Statements;
use bytes::Bytes;
use quorate_types::{Committee, ReplicaId, Signers};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

quorate_types::choice!(
    /// Verification method of BLS signatures. Verdicts on certificates do not depend on it.
    #[derive(Default)]
    BlsVerification, "BLS verification",
    /// Verifies each vote individually, as in the paper of Li, Sonnino and Jovanovic, and certificates with the sum of
    /// all keys minus the absentees' keys. The leader computes n-f pairings per certificate.
    Each = "each",
    /// Adds votes up and verifies them once. A failure is bisected, and from then on the signers of bad votes are
    /// verified individually. The key of a certificate is the sum of its signers' keys.
    Aggregate = "aggregate",
    /// Like `aggregate`, with the sum of all keys minus the absentees' keys.
    #[default]
    Cached = "cached",
);

impl BlsVerification {
    /// Returns the BLS scheme with this verification method; other schemes are returned unchanged. Its name and bytes
    /// are the same, so replicas may differ.
    pub fn of(self, kind: SchemeKind) -> SchemeKind {
        match self {
            _ if kind != SchemeKind::BLS12_381 => kind,
            BlsVerification::Each => SchemeKind::of(&EACH),
            BlsVerification::Aggregate => SchemeKind::of(&AGGREGATE),
            BlsVerification::Cached => SchemeKind::of(&CACHED),
        }
    }
}

/// BLS with one verification method.
pub struct Bls(BlsVerification);

pub(super) static CACHED: Bls = Bls(BlsVerification::Cached);
static EACH: Bls = Bls(BlsVerification::Each);
static AGGREGATE: Bls = Bls(BlsVerification::Aggregate);

static PROFILE: SchemeProfile = SchemeProfile {
    name: "bls12-381",
    summary: "BLS multi-signatures in G1; a certificate has one signature",
    unforgeable: true,
    transferable: true,
    attributable: true,
    aggregatable: true,
    batchable: true,
    needs_possession: true,
    weakness: None,
    public_key_bytes: PUBLIC_KEY_BYTES,
    signature: SignatureSize::Fixed(SIGNATURE_BYTES),
};

impl Bls {
    fn subtracts_absentees(&self) -> bool {
        self.0 != BlsVerification::Aggregate
    }
}

impl Scheme for Bls {
    fn profile(&self) -> &SchemeProfile {
        &PROFILE
    }

    fn costs_name(&self) -> &'static str {
        match self.0 {
            BlsVerification::Each => "bls12-381-each",
            BlsVerification::Aggregate => "bls12-381-aggregate",
            BlsVerification::Cached => PROFILE.name,
        }
    }

    fn effort_of_proof(&self, members: usize, groups: &[usize]) -> Effort {
        let of_group = |signers: &usize| key_additions(members, *signers, self.subtracts_absentees());
        Effort { key_additions: groups.iter().map(of_group).sum(), pairings: 1 + groups.len() as u64 }
    }

    fn adds_up_votes(&self) -> bool {
        self.0 != BlsVerification::Each
    }

    fn derive(&self, seed: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey> {
        Box::new(Key::new(Secret::derive(seed)))
    }

    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>> {
        Some(Box::new(Key::new(Secret::decode(secret)?)))
    }

    fn verify_possession(&self, public_key: &[u8], proof: &[u8]) -> bool {
        PublicKey::decode(public_key).is_some_and(|key| key.verify(POSSESSION, public_key, proof))
    }

    fn keys(
        &self,
        committee: &Committee,
        _: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError> {
        // Opposite keys add up to zero: a certificate would count two signers that prove nothing.
        let mut owners = BTreeMap::new();
        let mut keys = Vec::with_capacity(committee.len());
        for (replica, member) in committee.replicas().zip(&committee.members) {
            let fail = |fault| CryptoError::PublicKey { replica, role: KeyRole::Voting, fault };
            let key = PublicKey::decode(&member.voting_key).ok_or(fail(KeyFault::NotAPoint))?;
            if let Some(first) = owners.insert(key.abscissa(), replica) {
                return Err(fail(KeyFault::Shared { replica: first, role: KeyRole::Voting }));
            }
            keys.push(key);
        }
        let table = KeyTable::new(keys, self.subtracts_absentees());
        Ok(Box::new(BlsKeys { table, verifies_each: !self.adds_up_votes() }))
    }
}

struct Key {
    secret: Secret,
    public_key: Bytes,
}

impl Key {
    fn new(secret: Secret) -> Key {
        let public_key = Bytes::copy_from_slice(&secret.public_key());
        Key { secret, public_key }
    }
}

impl PrivateKey for Key {
    fn public_key(&self) -> Bytes {
        self.public_key.clone()
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&self.secret.sign(SIGNATURES, message))
    }

    fn prove_possession(&self) -> Bytes {
        Bytes::copy_from_slice(&self.secret.sign(POSSESSION, &self.public_key))
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(Zeroizing::new(self.secret.encode()).to_vec())
    }
}

struct BlsKeys {
    table: KeyTable,
    verifies_each: bool,
}

impl BlsKeys {
    /// Decodes the claims' signatures. Returns separately the signers of those that cannot be valid.
    fn decode<'a>(&self, claims: &[Claim<'a>]) -> (Vec<Summand<'a>>, Vec<ReplicaId>) {
        let (mut decoded, mut bad) = (Vec::with_capacity(claims.len()), Vec::new());
        for (replica, message, signature) in claims {
            let is_member = self.table.get(replica.index()).is_some();
            match Summand::decode(replica.index(), message, signature).filter(|_| is_member) {
                Some(summand) => decoded.push(summand),
                None => bad.push(*replica),
            }
        }
        (decoded, bad)
    }

    /// Returns the signers of bad signatures, and the number of signatures verified.
    fn find_bad(&self, claims: &[Claim<'_>], decoded: &[Summand<'_>]) -> (Vec<ReplicaId>, u64) {
        if self.verifies_each {
            let bad = claims.iter().filter(|claim| !self.verify(**claim)).map(|(replica, ..)| *replica);
            return (bad.collect(), claims.len() as u64);
        }
        let mut checked = 0;
        let bad = find_bad(decoded, |part| {
            checked += part.len() as u64;
            part.is_empty() || self.table.verify_sum(part).is_some()
        });
        (bad.into_iter().map(|summand| ReplicaId(summand.key as u16)).collect(), checked)
    }
}

impl Keys for BlsKeys {
    fn verify(&self, (replica, message, signature): Claim<'_>) -> bool {
        self.table.get(replica.index()).is_some_and(|key| key.verify(SIGNATURES, message, signature))
    }

    fn prove(&self, claims: &[Claim<'_>]) -> Proven {
        let (decoded, unreadable) = self.decode(claims);
        let (mut bad, checked) = match &unreadable[..] {
            [] => self.find_bad(claims, &decoded),
            _ => {
                let readable: Vec<Claim<'_>> =
                    claims.iter().filter(|(replica, ..)| !unreadable.contains(replica)).copied().collect();
                self.find_bad(&readable, &decoded)
            }
        };
        let checked = checked + unreadable.len() as u64;
        bad.extend(unreadable);
        bad.sort_unstable();
        let proof = if bad.is_empty() { Ok(Bytes::copy_from_slice(&aggregate(&decoded))) } else { Err(bad) };
        Proven { proof, checked }
    }

    fn assemble(&self, claims: &[Claim<'_>]) -> Bytes {
        Bytes::copy_from_slice(&aggregate(&self.decode(claims).0))
    }

    fn verify_proof(&self, signers: &Signers, statements: &Statements, proof: &[u8]) -> Result<Effort, ProofFault> {
        if proof.len() != SIGNATURE_BYTES {
            return Err(ProofFault::Length { expected: SIGNATURE_BYTES });
        }
        let signed: Vec<(usize, &[u8])> =
            signers.iter().enumerate().map(|(at, signer)| (signer.index(), statements.at(at))).collect();
        if signed.is_empty() {
            return Err(ProofFault::Signature);
        }
        self.table.verify_encoded(proof, signed.into_iter()).ok_or(ProofFault::Signature)
    }

    fn add_up(&self, signers: &Signers) -> Effort {
        let signers: Vec<usize> = signers.iter().map(ReplicaId::index).collect();
        self.table.add_up(&signers)
    }
}
