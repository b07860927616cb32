//! One replica's signing and checking device.

use crate::bisect::find_bad;
use crate::cache::{SignatureCache, VerifiedCache};
use crate::error::{CertificateError, CryptoError, KeyRole};
use crate::key_pair::KeyPair;
use crate::keyring::Keyring;
use crate::scheme::{Claim, ProofFault, Recipients, SchemeKind};
use crate::statements::Statements;
use bytes::Bytes;
use quorate_types::{Attachment, Certificate, Committee, Domain, ReplicaId, Signers, Statement, Subject, View, Vote};
use std::mem::discriminant;
use std::sync::Arc;

/// Own statements whose signatures are kept: more than a window of PBFT's slots, in about half a megabyte.
pub const KEPT_SIGNATURES: usize = 2048;

/// Signs for one replica, checks the votes of all, makes certificates and remembers the valid ones.
///
/// Certificates exist in every domain but that of proposals, and need a quorum. A certificate that a signer attached
/// ([`Attachment::HighCertificate`]) is not verified along with the one that carries it: the signature covers only its subject, and
/// protocols such as Fast-HotStuff verify none but the highest of a quorum. Consensus asks for that one by itself.
pub struct Crypto {
    keyring: Arc<Keyring>,
    key: KeyPair,
    genesis: Certificate,
    cache: VerifiedCache,
    signed: SignatureCache,
    verifications: u64,
    cache_hits: u64,
}

impl Crypto {
    /// The device of replica `me`, which remembers the last `cache_certificates` verified certificates.
    ///
    /// # Errors
    /// [`CryptoError`] if a member's public key is unusable or `key` is not that of `me`.
    pub fn new(
        kind: SchemeKind,
        committee: &Committee,
        me: ReplicaId,
        key: KeyPair,
        cache_certificates: usize,
    ) -> Result<Crypto, CryptoError> {
        let keyring = Keyring::of_member(kind, committee, me, &key)?;
        Crypto::with_keyring(Arc::new(keyring), committee, me, key, cache_certificates)
    }

    /// The same with a keyring of this committee that other replicas of the process share.
    ///
    /// # Errors
    /// [`CryptoError`] if `key` is not that of `me`.
    pub fn with_keyring(
        keyring: Arc<Keyring>,
        committee: &Committee,
        me: ReplicaId,
        key: KeyPair,
        cache_certificates: usize,
    ) -> Result<Crypto, CryptoError> {
        assert!(*keyring.cluster() == committee.cluster && keyring.quorum() == committee.quorum, "another's keyring");
        key.check(KeyRole::Voting, keyring.kind(), committee, me)?;
        Ok(Crypto {
            genesis: Certificate::genesis(keyring.cluster()),
            keyring,
            key,
            cache: VerifiedCache::new(cache_certificates),
            signed: SignatureCache::new(KEPT_SIGNATURES),
            verifications: 0,
            cache_hits: 0,
        })
    }

    /// This replica's signature of a statement.
    pub fn sign(&self, statement: &Statement) -> Bytes {
        self.keyring.sign(&self.key, statement.as_bytes(), Recipients::All)
    }

    /// The same, kept for when the statement is made again: whoever falls behind has it repeated, and costs no signature by that.
    pub fn sign_once(&mut self, statement: &Statement) -> Bytes {
        let (keyring, key) = (&self.keyring, &self.key);
        self.signed.get_or_sign(statement.as_bytes(), || keyring.sign(key, statement.as_bytes(), Recipients::All))
    }

    /// Signatures made for [`Crypto::sign_once`].
    pub fn signatures(&self) -> u64 {
        self.signed.made()
    }

    /// Whether a vote, of any domain, is signed by its voter.
    pub fn verify_vote(&mut self, vote: &Vote) -> bool {
        self.verifications += 1;
        self.keyring.verify(vote.voter, vote.statement(self.keyring.cluster()).as_bytes(), &vote.signature)
    }

    /// Makes a certificate of a quorum of votes by distinct voters on one subject, and remembers it as verified. All signatures are
    /// checked at once; if that fails, halves are, until every bad one is found.
    ///
    /// # Errors
    /// The voters, ascending, whose votes are of no use: strangers, wrong signatures, and those whose attachment is of another kind
    /// than most have (an honest majority decides). The others' votes can be handed in again with new ones.
    ///
    /// # Panics
    /// If there is less than a quorum, a voter twice, a vote on something else, or a subject that has no certificates: the caller's bug.
    pub fn assemble(&mut self, subject: &Subject, mut votes: Vec<Vote>) -> Result<Certificate, Vec<ReplicaId>> {
        assert!(subject.domain != Domain::Proposal, "a proposal is signed by its leader alone");
        assert!(subject.domain != Domain::Vote || subject.view > View(0), "view 0 has the certificate of genesis only");
        let needed = self.keyring.quorum().quorum();
        assert!(votes.len() >= needed, "{} votes are not a quorum of {needed}", votes.len());
        votes.sort_unstable_by_key(|vote| vote.voter);
        assert!(votes.windows(2).all(|pair| pair[0].voter < pair[1].voter), "a voter is counted twice");
        assert!(votes.iter().all(|vote| vote.subject == *subject), "a vote is on another subject");

        let misfits = self.misfits(&votes);
        if !misfits.is_empty() {
            return Err(misfits);
        }
        let attachments = votes.iter().map(|vote| &vote.attachment);
        let statements = Statements::new(self.keyring.cluster(), subject, attachments);
        let claims: Vec<Claim<'_>> =
            (votes.iter().enumerate()).map(|(at, vote)| (vote.voter, statements.at(at), &vote.signature[..])).collect();
        let bad = find_bad(&claims, |claims| self.check(claims));
        if !bad.is_empty() {
            return Err(bad.into_iter().map(|(replica, ..)| *replica).collect());
        }

        let proof = self.keyring.assemble(&claims);
        let certificate = certificate(subject, votes, proof);
        self.cache.insert(certificate.fingerprint());
        Ok(certificate)
    }

    /// Checks that a certificate proves a quorum, or is genesis.
    ///
    /// # Errors
    /// [`CertificateError`]: what is wrong with it. Whoever sent it is to blame.
    pub fn verify_certificate(&mut self, certificate: &Certificate) -> Result<(), CertificateError> {
        if *certificate == self.genesis {
            return Ok(());
        }
        check_structure(&self.keyring, certificate)?;
        let fingerprint = certificate.fingerprint();
        if self.cache.contains(&fingerprint) {
            self.cache_hits += 1;
            return Ok(());
        }
        let proven = check_proof(&self.keyring, certificate);
        if !matches!(proven, Err(CertificateError::ProofLength { .. })) {
            self.verifications += certificate.signers.len() as u64;
        }
        proven?;
        self.cache.insert(fingerprint);
        Ok(())
    }

    /// Single signatures checked since the start: a batch of k counts k, and again for what is checked again to find the bad ones.
    pub fn verifications(&self) -> u64 {
        self.verifications
    }

    /// Certificates that were known to be valid already.
    pub fn cache_hits(&self) -> u64 {
        self.cache_hits
    }

    /// The committee's public keys, for checks on other threads.
    pub fn keyring(&self) -> Arc<Keyring> {
        self.keyring.clone()
    }

    /// Voters that are no members, and voters whose attachment cannot stand beside the others' in one certificate.
    fn misfits(&self, votes: &[Vote]) -> Vec<ReplicaId> {
        let alike = |vote: &Vote| {
            votes.iter().filter(|other| discriminant(&other.attachment) == discriminant(&vote.attachment)).count()
        };
        let uniform = alike(&votes[0]) == votes.len();
        (votes.iter())
            .filter(|vote| !self.keyring.is_member(vote.voter) || !uniform && alike(vote) * 2 <= votes.len())
            .map(|vote| vote.voter)
            .collect()
    }

    fn check(&mut self, claims: &[Claim<'_>]) -> bool {
        self.verifications += claims.len() as u64;
        self.keyring.verify_many(claims)
    }
}

/// Checks that a certificate proves a quorum, or is genesis, by the committee's public keys alone: what an auditor does, who is no
/// replica and remembers nothing.
///
/// # Errors
/// [`CertificateError`]: what is wrong with it.
pub fn verify_certificate(keyring: &Keyring, certificate: &Certificate) -> Result<(), CertificateError> {
    if *certificate == Certificate::genesis(keyring.cluster()) {
        return Ok(());
    }
    check_structure(keyring, certificate)?;
    check_proof(keyring, certificate)
}

fn check_structure(keyring: &Keyring, certificate: &Certificate) -> Result<(), CertificateError> {
    let Certificate { subject, signers, attachments, .. } = certificate;
    let quorum = keyring.quorum();
    match subject.domain {
        Domain::Proposal => return Err(CertificateError::Domain(subject.domain)),
        Domain::Vote if subject.view == View(0) => return Err(CertificateError::NotGenesis),
        _ => {}
    }
    if let Some(replica) = signers.highest().filter(|replica| !keyring.is_member(*replica)) {
        return Err(CertificateError::Stranger { replica, members: quorum.replicas() });
    }
    let count = signers.len();
    if count < quorum.quorum() {
        return Err(CertificateError::TooFewSigners { signers: count, quorum: quorum.quorum() });
    }
    let said = attachments.iter().filter(|attachment| **attachment != Attachment::None).count();
    if !attachments.is_empty() && (attachments.len() != count || said != count) {
        return Err(CertificateError::Attachments { attachments: said, signers: count });
    }
    Ok(())
}

/// Of a certificate whose structure is sound.
fn check_proof(keyring: &Keyring, certificate: &Certificate) -> Result<(), CertificateError> {
    let Certificate { subject, signers, attachments, proof } = certificate;
    let statements = Statements::new(keyring.cluster(), subject, attachments.iter());
    keyring.verify_proof(signers, &statements, proof).map_err(|fault| match fault {
        ProofFault::Length { expected } => CertificateError::ProofLength { found: proof.len(), expected },
        ProofFault::Signature => CertificateError::Signature { domain: subject.domain, view: subject.view },
    })
}

/// Puts checked votes, in the voters' order, and their proof together.
fn certificate(subject: &Subject, votes: Vec<Vote>, proof: Bytes) -> Certificate {
    let signers: Signers = votes.iter().map(|vote| vote.voter).collect();
    let said = votes.into_iter().map(|vote| vote.attachment).filter(|said| *said != Attachment::None);
    Certificate { subject: *subject, signers, attachments: said.collect(), proof }
}
