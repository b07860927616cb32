//! Signing and verification for one replica.

use crate::cache::{SignatureCache, VerifiedCache};
use crate::certificates::{check_proof, check_structure};
use crate::error::{CertificateError, CryptoError, KeyRole};
use crate::key_pair::KeyPair;
use crate::keyring::Keyring;
use crate::profile::MacKeys;
use crate::scheme::{Proofs, Recipients, SchemeKind};
use crate::tasks::{AssembleTask, Assembled, TaskKeys, Verified, VerifyTask};
use bytes::Bytes;
use quorate_types::{Certificate, Committee, Domain, EpochId, ReplicaId, Signers, Statement, Subject, View, Vote};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Number of cached own signatures: more than a window of PBFT slots needs, in about half a megabyte.
pub const MAX_KEPT_SIGNATURES: usize = 2048;

/// Signs one replica's statements, verifies all replicas' votes, assembles certificates and caches valid ones.
///
/// A certificate can be in any domain except proposals, and needs a quorum. Certificates attached by signers
/// ([`HighCertificate`](quorate_types::Attachment::HighCertificate)) are not verified together with the certificate
/// that contains them: the signature covers only their subject, and protocols such as Fast-HotStuff verify only the
/// highest of a quorum. Consensus requests that verification separately.
pub struct Crypto {
    keyring: Arc<Keyring>,
    key: KeyPair,
    /// Keys for votes that need not convince third parties, if the profile uses MACs.
    macs: Option<MacKeys>,
    genesis: Certificate,
    cache: VerifiedCache,
    signed: SignatureCache,
    /// Members whose bad signatures have spoiled a sum. In schemes with aggregates their votes are verified
    /// individually, so that each of them costs at most one bisection.
    spoilers: Signers,
    verifications: u64,
    cache_hits: u64,
    proofs: Proofs,
}

impl Crypto {
    /// Creates the crypto device of replica `me`, which caches the last `cache_certificates` verified certificates.
    ///
    /// # Errors
    /// [`CryptoError`] if a member's voting key is unusable, or `key` is not the private voting key of `me`.
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

    /// Like [`Crypto::new`], with an existing keyring of this committee, which the replicas of a process can share.
    ///
    /// # Errors
    /// [`CryptoError`] if `key` is not the private voting key of `me`.
    pub fn with_keyring(
        keyring: Arc<Keyring>,
        committee: &Committee,
        me: ReplicaId,
        key: KeyPair,
        cache_certificates: usize,
    ) -> Result<Crypto, CryptoError> {
        assert!(
            *keyring.epoch() == committee.epoch && keyring.quorum() == committee.quorum,
            "the keyring belongs to another committee"
        );
        key.check(KeyRole::Voting, keyring.kind(), committee, me)?;
        Ok(Crypto {
            genesis: Certificate::genesis(keyring.epoch()),
            keyring,
            key,
            macs: None,
            cache: VerifiedCache::new(cache_certificates),
            signed: SignatureCache::new(MAX_KEPT_SIGNATURES),
            spoilers: Signers::empty(),
            verifications: 0,
            cache_hits: 0,
            proofs: Proofs::default(),
        })
    }

    /// Uses MACs for the votes selected by [`AuthProfile`](crate::AuthProfile).
    ///
    /// # Panics
    /// If the MAC keys belong to another committee.
    pub fn with_macs(mut self, macs: MacKeys) -> Crypto {
        let (ours, theirs) = (&self.keyring, macs.keyring());
        assert!(
            (theirs.epoch(), theirs.quorum()) == (ours.epoch(), ours.quorum()),
            "the MAC keys belong to another committee"
        );
        self.macs = Some(macs);
        self
    }

    fn keys_for(&self, domain: Domain) -> (&Keyring, &KeyPair) {
        choose(&self.keyring, &self.key, self.macs.as_ref(), domain)
    }

    fn public_keys(&self) -> TaskKeys {
        TaskKeys { keyring: self.keyring.clone(), mac_keyring: self.macs.as_ref().map(MacKeys::shared_keyring) }
    }

    /// Returns the epoch named in statements.
    pub fn epoch(&self) -> &EpochId {
        self.keyring.epoch()
    }

    /// Signs a statement as this replica.
    pub fn sign(&self, statement: &Statement) -> Bytes {
        let (keyring, key) = self.keys_for(statement.domain());
        keyring.sign(key, statement.as_bytes(), Recipients::All)
    }

    /// Signs a statement and caches the signature, because statements are repeated for peers that fall behind.
    pub fn sign_once(&mut self, statement: &Statement) -> Bytes {
        let (keyring, key) = choose(&self.keyring, &self.key, self.macs.as_ref(), statement.domain());
        self.signed.get_or_sign(statement.as_bytes(), || keyring.sign(key, statement.as_bytes(), Recipients::All))
    }

    /// Number of signatures made by [`Crypto::sign_once`].
    pub fn signatures(&self) -> u64 {
        self.signed.made()
    }

    /// Verifies the signature of a vote of any domain.
    pub fn verify_vote(&mut self, vote: &Vote) -> bool {
        self.verifications += 1;
        let (keyring, _) = self.keys_for(vote.subject.domain);
        keyring.verify(vote.voter, vote.statement(keyring.epoch()).as_bytes(), &vote.signature)
    }

    /// Creates a certificate from a quorum of votes by distinct voters on one subject, and caches it as verified.
    /// Verifies all signatures in one batch, and bisects it if that fails.
    ///
    /// # Errors
    /// The voters with unusable votes, ascending; see [`Certificate::assemble`].
    ///
    /// # Panics
    /// On a bug of the caller: there is no quorum, a voter occurs twice, a vote is on another subject, or the subject
    /// cannot have certificates.
    pub fn assemble(&mut self, subject: &Subject, votes: Vec<Vote>) -> Result<Certificate, Vec<ReplicaId>> {
        let task = self.begin_assembly(*subject, votes);
        self.finish_assembly(task.run())
    }

    /// Begins the work of [`Crypto::assemble`] as a task, whose outcome is for [`Crypto::finish_assembly`].
    ///
    /// # Panics
    /// On a bug of the caller, as above; for a voter that occurs twice, when the task runs.
    pub fn begin_assembly(&self, subject: Subject, votes: Vec<Vote>) -> AssembleTask {
        assert!(!subject.domain.is_proposal(), "a proposal is signed by its leader alone");
        assert!(subject.domain != Domain::Vote || subject.view > View(0), "view 0 has only the genesis certificate");
        let needed = self.keyring.quorum().quorum();
        assert!(votes.len() >= needed, "{} votes are not a quorum of {needed}", votes.len());
        assert!(votes.iter().all(|vote| vote.subject == subject), "a vote is on another subject");
        let keyring = self.public_keys().into_keyring(subject.domain);
        let suspects = if keyring.kind().profile().aggregatable { self.spoilers } else { Signers::empty() };
        AssembleTask { keyring, subject, votes, suspects }
    }

    /// Takes the outcome of a task from [`Crypto::begin_assembly`].
    ///
    /// # Errors
    /// The voters with unusable votes, ascending.
    pub fn finish_assembly(&mut self, assembled: Assembled) -> Result<Certificate, Vec<ReplicaId>> {
        let Assembled { result, spoilers, checked } = assembled;
        self.verifications += checked;
        self.spoilers.union(&spoilers);
        if let Ok(certificate) = &result {
            self.cache.insert(certificate.fingerprint());
        }
        result
    }

    /// Begins to verify certificates and votes. Breaks with the verdict if it is known at once, because a certificate
    /// has an invalid structure, or because everything was verified before.
    pub fn begin_verification(
        &mut self,
        certificates: Vec<Certificate>,
        votes: Vec<Vote>,
    ) -> ControlFlow<bool, VerifyTask> {
        let mut unknown = Vec::with_capacity(certificates.len());
        for certificate in certificates {
            if certificate == self.genesis {
                continue;
            }
            if check_structure(&self.keyring, &certificate).is_err() {
                return ControlFlow::Break(false);
            }
            let fingerprint = certificate.fingerprint();
            match self.cache.contains(&fingerprint) {
                true => self.cache_hits += 1,
                false => unknown.push((fingerprint, certificate)),
            }
        }
        if unknown.is_empty() && votes.is_empty() {
            return ControlFlow::Break(true);
        }
        ControlFlow::Continue(VerifyTask { keys: self.public_keys(), certificates: unknown, votes })
    }

    /// Takes the outcome of a task from [`Crypto::begin_verification`], and returns whether everything is genuine.
    pub fn finish_verification(&mut self, verified: Verified) -> bool {
        let Verified { genuine, fingerprints, checked, proofs } = verified;
        self.verifications += checked;
        self.proofs.verified += proofs.verified;
        self.proofs.effort += proofs.effort;
        fingerprints.into_iter().for_each(|fingerprint| self.cache.insert(fingerprint));
        genuine
    }

    /// Members whose bad signatures have spoiled a certificate's proof so far.
    pub fn spoilers(&self) -> &Signers {
        &self.spoilers
    }

    /// Verifies a certificate of a quorum; accepts genesis.
    ///
    /// # Errors
    /// [`CertificateError`]; the sender is to blame.
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
        let proven = check_proof(self.keys_for(certificate.subject.domain).0, certificate);
        if !matches!(proven, Err(CertificateError::ProofLength { .. })) {
            self.verifications += certificate.signers.len() as u64;
        }
        self.proofs.add(proven?);
        self.cache.insert(fingerprint);
        Ok(())
    }

    /// Number of signatures verified since the start. A batch of k counts k, and bisection counts them again.
    pub fn verifications(&self) -> u64 {
        self.verifications
    }

    /// Number of peers' certificates verified since the start, and the operations that took.
    pub fn proofs(&self) -> Proofs {
        self.proofs
    }

    /// Number of certificates found in the cache.
    pub fn cache_hits(&self) -> u64 {
        self.cache_hits
    }

    pub fn keyring(&self) -> Arc<Keyring> {
        self.keyring.clone()
    }
}

/// Returns the keys that authenticate statements of a domain.
fn choose<'a>(
    keyring: &'a Keyring,
    key: &'a KeyPair,
    macs: Option<&'a MacKeys>,
    domain: Domain,
) -> (&'a Keyring, &'a KeyPair) {
    match macs.filter(|_| MacKeys::authenticate(domain)) {
        Some(macs) => (macs.keyring(), macs.key()),
        None => (keyring, key),
    }
}
