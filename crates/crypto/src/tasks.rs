//! Verification as a value, which any thread can run. The replica's [`Crypto`] makes it and takes its outcome: caches
//! and counters stay with the replica.

use crate::certificates::check_proof;
use crate::error::CertificateError;
use crate::keyring::Keyring;
use crate::profile::MacKeys;
use crate::scheme::{Claim, Proofs};
use crate::statements::Statements;
use bytes::Bytes;
use quorate_types::{Certificate, Digest, Domain, ReplicaId, Signers, Subject, Vote};
use std::sync::Arc;

/// The keys that a task verifies with.
pub(crate) struct TaskKeys {
    pub keyring: Arc<Keyring>,
    /// Keys of the codes, for the votes that [`AuthProfile`](crate::AuthProfile) names.
    pub codes: Option<Arc<Keyring>>,
}

impl TaskKeys {
    fn of(&self, domain: Domain) -> &Keyring {
        self.codes.as_ref().filter(|_| MacKeys::authenticate(domain)).unwrap_or(&self.keyring)
    }

    pub fn into_keyring(self, domain: Domain) -> Arc<Keyring> {
        self.codes.filter(|_| MacKeys::authenticate(domain)).unwrap_or(self.keyring)
    }
}

/// Verification of certificates with a valid structure, and of votes.
pub struct VerifyTask {
    pub(crate) keys: TaskKeys,
    /// Certificates that were not verified before, with their fingerprints.
    pub(crate) certificates: Vec<(Digest, Certificate)>,
    pub(crate) votes: Vec<Vote>,
}

/// Outcome of a [`VerifyTask`].
pub struct Verified {
    pub(crate) genuine: bool,
    /// Fingerprints of the certificates that are genuine, even if others are not.
    pub(crate) fingerprints: Vec<Digest>,
    pub(crate) checked: u64,
    pub(crate) proofs: Proofs,
}

impl VerifyTask {
    /// Verifies everything, up to the first that is not genuine.
    pub fn run(self) -> Verified {
        let VerifyTask { keys, certificates, votes } = self;
        let fingerprints = Vec::with_capacity(certificates.len());
        let mut verified = Verified { genuine: true, fingerprints, checked: 0, proofs: Proofs::default() };
        for (fingerprint, certificate) in certificates {
            let proven = check_proof(keys.of(certificate.subject.domain), &certificate);
            if !matches!(proven, Err(CertificateError::ProofLength { .. })) {
                verified.checked += certificate.signers.len() as u64;
            }
            let Ok(effort) = proven else {
                return Verified { genuine: false, ..verified };
            };
            verified.proofs.add(effort);
            verified.fingerprints.push(fingerprint);
        }
        for vote in votes {
            verified.checked += 1;
            let keyring = keys.of(vote.subject.domain);
            let statement = vote.statement(keyring.cluster());
            if !keyring.verify(vote.voter, statement.as_bytes(), &vote.signature) {
                return Verified { genuine: false, ..verified };
            }
        }
        verified
    }
}

/// Verification of a quorum's votes on one subject, and assembly of their certificate.
pub struct AssembleTask {
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) subject: Subject,
    pub(crate) votes: Vec<Vote>,
    /// Members whose signatures are verified alone; empty in schemes without aggregates.
    pub(crate) suspects: Signers,
}

/// Outcome of an [`AssembleTask`].
pub struct Assembled {
    pub(crate) result: Result<Certificate, Vec<ReplicaId>>,
    /// Members whose signatures spoiled the proof.
    pub(crate) spoilers: Signers,
    pub(crate) checked: u64,
}

impl AssembleTask {
    /// Verifies all signatures in one batch, and bisects it if that fails.
    pub fn run(self) -> Assembled {
        let AssembleTask { keyring, subject, votes, suspects } = self;
        let (mut spoilers, mut checked) = (Signers::empty(), 0);
        let prove = |votes: &[Vote]| prove(&keyring, &subject, votes, &suspects, &mut spoilers, &mut checked);
        let result = Certificate::assemble(&subject, votes, &keyring.quorum(), prove);
        Assembled { result, spoilers, checked }
    }
}

fn prove(
    keyring: &Keyring,
    subject: &Subject,
    votes: &[Vote],
    suspects: &Signers,
    spoilers: &mut Signers,
    checked: &mut u64,
) -> Result<Bytes, Vec<ReplicaId>> {
    assert!(votes.windows(2).all(|pair| pair[0].voter < pair[1].voter), "a voter occurs twice");
    let attachments = votes.iter().map(|vote| &vote.attachment);
    let statements = Statements::new(keyring.cluster(), subject, attachments);
    let claims: Vec<Claim<'_>> =
        (votes.iter().enumerate()).map(|(at, vote)| (vote.voter, statements.at(at), &vote.signature[..])).collect();
    let alone = || claims.iter().filter(|(replica, ..)| suspects.contains(*replica));
    *checked += alone().count() as u64;
    let is_bad = |(replica, message, signature): &&Claim<'_>| !keyring.verify(*replica, message, signature);
    let bad: Vec<ReplicaId> = alone().filter(is_bad).map(|(replica, ..)| *replica).collect();
    if !bad.is_empty() {
        return Err(bad);
    }
    let proven = keyring.prove(&claims);
    *checked += proven.checked;
    if let Err(bad) = &proven.proof {
        *spoilers = bad.iter().copied().filter(|replica| keyring.is_member(*replica)).collect();
    }
    proven.proof
}
