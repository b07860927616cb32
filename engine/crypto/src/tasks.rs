//! Verification as a value that any thread can run. The replica's [`Crypto`] creates it and takes its outcome: caches
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

/// Number of MACs that are verified faster than another thread can start: each takes about 0.3 us.
const QUICK_MACS: usize = 32;
/// Number of signatures that an otherwise idle thread verifies itself, because it finishes sooner than another thread
/// would: eight ECDSA signatures take 0.5 ms.
pub const FEW_SIGNATURES: usize = 8;

/// The keys with which a task verifies.
pub(crate) struct TaskKeys {
    pub keyring: Arc<Keyring>,
    /// MAC keys, for the votes selected by [`AuthProfile`](crate::AuthProfile).
    pub mac_keyring: Option<Arc<Keyring>>,
}

impl TaskKeys {
    fn of(&self, domain: Domain) -> &Keyring {
        self.mac_keyring.as_ref().filter(|_| MacKeys::authenticate(domain)).unwrap_or(&self.keyring)
    }

    /// Returns whether votes of a domain have MACs.
    fn are_macs(&self, domain: Domain) -> bool {
        !self.of(domain).kind().profile().has_public_keys_only()
    }

    pub fn into_keyring(self, domain: Domain) -> Arc<Keyring> {
        self.mac_keyring.filter(|_| MacKeys::authenticate(domain)).unwrap_or(self.keyring)
    }
}

/// Verification of votes and of structurally valid certificates.
pub struct VerifyTask {
    pub(crate) keys: TaskKeys,
    /// Certificates that were not verified before, with their fingerprints.
    pub(crate) certificates: Vec<(Digest, Certificate)>,
    pub(crate) votes: Vec<Vote>,
}

/// Outcome of a [`VerifyTask`].
pub struct Verified {
    pub(crate) genuine: bool,
    /// Fingerprints of the genuine certificates, even if others are not genuine.
    pub(crate) fingerprints: Vec<Digest>,
    pub(crate) checked: u64,
    pub(crate) proofs: Proofs,
}

impl VerifyTask {
    /// Returns whether it consists only of a few MACs, and so takes at most a few microseconds.
    pub fn is_quick(&self) -> bool {
        let certificates = self.certificates.iter().map(|(_, certificate)| certificate);
        let macs: usize = certificates.clone().map(|certificate| certificate.signers.len()).sum();
        macs + self.votes.len() <= QUICK_MACS
            && certificates.map(|certificate| certificate.subject.domain).all(|domain| self.keys.are_macs(domain))
            && self.votes.iter().all(|vote| self.keys.are_macs(vote.subject.domain))
    }

    /// Returns whether it has at most [`FEW_SIGNATURES`], and no aggregate signature.
    pub fn is_small(&self) -> bool {
        let certificates = self.certificates.iter().map(|(_, certificate)| certificate);
        let domains = certificates.clone().map(|certificate| certificate.subject.domain);
        let mut domains = domains.chain(self.votes.iter().map(|vote| vote.subject.domain));
        certificates.map(|certificate| certificate.signers.len()).sum::<usize>() + self.votes.len() <= FEW_SIGNATURES
            && domains.all(|domain| !self.keys.of(domain).kind().profile().aggregatable)
    }

    /// Verifies everything, up to the first failure.
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
            let statement = vote.statement(keyring.epoch());
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
    /// Members whose signatures are verified individually; empty in schemes without aggregates.
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

    /// Returns whether it consists only of a few MACs, and so takes at most a few microseconds.
    pub fn is_quick(&self) -> bool {
        self.votes.len() <= QUICK_MACS && !self.keyring.kind().profile().has_public_keys_only()
    }

    /// Returns whether it has at most [`FEW_SIGNATURES`], and no aggregate signature.
    pub fn is_small(&self) -> bool {
        self.votes.len() <= FEW_SIGNATURES && !self.keyring.kind().profile().aggregatable
    }

    /// Returns whether it is cheaper to verify its votes [together](AssembleTask::run_together) with those of other
    /// tasks.
    pub fn gains_from_others(&self) -> bool {
        let profile = self.keyring.kind().profile();
        profile.batchable && !profile.aggregatable
    }

    /// Runs several tasks, with the results of [`AssembleTask::run`] in the same order. Verifies the signatures of all
    /// tasks in one batch if that is cheaper, and each task's alone if that fails, so one bad vote costs at most one
    /// batch.
    pub fn run_together(tasks: Vec<AssembleTask>) -> Vec<Assembled> {
        let is_joint = |task: &AssembleTask| task.gains_from_others() && Arc::ptr_eq(&task.keyring, &tasks[0].keyring);
        if tasks.len() < 2 || !tasks.iter().all(is_joint) {
            return tasks.into_iter().map(AssembleTask::run).collect();
        }
        let genuine = are_genuine(&tasks);
        let wasted = if genuine { 0 } else { tasks.iter().map(|task| task.votes.len() as u64).sum() };
        let run = |task: AssembleTask| if genuine { task.run_verified() } else { task.run() };
        let mut assembled: Vec<Assembled> = tasks.into_iter().map(run).collect();
        assembled[0].checked += wasted;
        assembled
    }

    /// Creates the certificate of votes whose signatures are known to be genuine.
    fn run_verified(self) -> Assembled {
        let AssembleTask { keyring, subject, votes, .. } = self;
        let checked = votes.len() as u64;
        let prove = |votes: &[Vote]| {
            assert_distinct(votes);
            let statements = statements(&keyring, &subject, votes);
            Ok(keyring.assemble(&claims(votes, &statements)))
        };
        let result = Certificate::assemble(&subject, votes, &keyring.quorum(), prove);
        Assembled { result, spoilers: Signers::empty(), checked }
    }
}

/// Verifies the votes of tasks with one keyring, in one batch.
fn are_genuine(tasks: &[AssembleTask]) -> bool {
    let statements: Vec<Statements> =
        tasks.iter().map(|task| statements(&task.keyring, &task.subject, &task.votes)).collect();
    let all: Vec<Claim<'_>> =
        tasks.iter().zip(&statements).flat_map(|(task, statements)| claims(&task.votes, statements)).collect();
    tasks[0].keyring.verify_many(&all)
}

fn statements(keyring: &Keyring, subject: &Subject, votes: &[Vote]) -> Statements {
    Statements::new(keyring.epoch(), subject, votes.iter().map(|vote| &vote.attachment))
}

fn claims<'a>(votes: &'a [Vote], statements: &'a Statements) -> Vec<Claim<'a>> {
    votes.iter().enumerate().map(|(at, vote)| (vote.voter, statements.at(at), &vote.signature[..])).collect()
}

fn assert_distinct(votes: &[Vote]) {
    assert!(votes.windows(2).all(|pair| pair[0].voter < pair[1].voter), "a voter occurs twice");
}

fn prove(
    keyring: &Keyring,
    subject: &Subject,
    votes: &[Vote],
    suspects: &Signers,
    spoilers: &mut Signers,
    checked: &mut u64,
) -> Result<Bytes, Vec<ReplicaId>> {
    assert_distinct(votes);
    let statements = statements(keyring, subject, votes);
    let claims = claims(votes, &statements);
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
