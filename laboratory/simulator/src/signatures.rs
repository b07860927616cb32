//! Crypto device of a simulated replica: real, or a model that only takes time.

use crate::charges::{Charges, Checks};
use crate::trace::mix;
use bytes::Bytes;
use quorate_crypto::statements::Statements;
use quorate_crypto::{Crypto, MacKeys, Proofs, SchemeProfile};
use quorate_types::identity::ProofShape;
use quorate_types::{Attachment, Certificate, Domain, EpochId, Quorum, ReplicaId, Subject, Vote};
use std::collections::{BTreeSet, VecDeque};

/// Device that signs and verifies.
pub enum Device {
    Real(Box<Crypto>),
    /// Signatures are genuine by construction and have the right size.
    Modelled(Box<Modelled>),
}

/// Model of a scheme's signatures.
pub struct Modelled {
    epoch: EpochId,
    genesis: Certificate,
    quorum: Quorum,
    shape: ProofShape,
    /// Sizes of the MACs on votes, if votes have MACs.
    macs: Option<ProofShape>,
    /// Whether the scheme is unforgeable, so that verification has a cost.
    is_signed: bool,
    /// Zeros, the content of all signatures and proofs.
    zeros: Bytes,
    /// Maximum number of verified certificates to remember.
    capacity: usize,
    /// Keys of verified certificates.
    known: BTreeSet<u64>,
    order: VecDeque<u64>,
    verifications: u64,
    proofs: Proofs,
}

impl Modelled {
    /// Creates a model that remembers the last `capacity` verified certificates.
    pub fn new(
        epoch: EpochId,
        quorum: Quorum,
        profile: &SchemeProfile,
        macs: Option<&SchemeProfile>,
        capacity: usize,
    ) -> Modelled {
        let shape = profile.shape(quorum.replicas());
        let macs = macs.map(|profile| profile.shape(quorum.replicas()));
        let longest = macs.iter().chain([&shape]).map(|shape| shape.proof_bytes(quorum.replicas())).max();
        Modelled {
            epoch,
            genesis: Certificate::genesis(&epoch),
            quorum,
            shape,
            macs,
            is_signed: profile.unforgeable,
            zeros: vec![0; longest.unwrap_or_default()].into(),
            capacity,
            known: BTreeSet::new(),
            order: VecDeque::new(),
            verifications: 0,
            proofs: Proofs::default(),
        }
    }

    fn shape(&self, domain: Domain) -> ProofShape {
        self.macs.filter(|_| MacKeys::authenticate(domain)).unwrap_or(self.shape)
    }

    fn signature(&self, domain: Domain) -> Bytes {
        self.zeros.slice(..self.shape(domain).signature_bytes)
    }

    fn proof(&self, domain: Domain, signers: usize) -> Bytes {
        self.zeros.slice(..self.shape(domain).proof_bytes(signers))
    }

    fn remember(&mut self, certificate: &Certificate) {
        if !self.is_signed {
            return;
        }
        let key = name(certificate);
        if self.known.insert(key) {
            self.order.push_back(key);
        }
        if self.order.len() > self.capacity {
            let oldest = self.order.pop_front().expect("the queue is over its limit");
            self.known.remove(&oldest);
        }
    }

    fn check(&mut self, certificate: &Certificate) -> (bool, u64) {
        if *certificate == self.genesis {
            return (true, 0);
        }
        let signers = certificate.signers.len();
        let few = quorate_types::bug!(CheckpointByFew) && certificate.subject.domain == Domain::Checkpoint;
        let sound = signers >= if few { self.quorum.weak() } else { self.quorum.quorum() }
            && certificate.signers.highest().is_none_or(|highest| highest.index() < self.quorum.replicas())
            && certificate.proof == self.proof(certificate.subject.domain, signers);
        if !self.is_signed || !sound || self.known.contains(&name(certificate)) {
            return (sound, 0);
        }
        self.verifications += signers as u64;
        self.remember(certificate);
        (true, signers as u64)
    }

    fn is_genuine(&self, vote: &Vote) -> bool {
        vote.signature == self.signature(vote.subject.domain)
    }

    /// Creates a certificate, and returns the number of signatures checked for it.
    fn assemble(&mut self, subject: &Subject, votes: Vec<Vote>) -> (Result<Certificate, Vec<ReplicaId>>, u64) {
        let mut checked = 0;
        let result = Certificate::assemble(subject, votes, &self.quorum, |votes| {
            let forged = |vote: &&Vote| !self.is_genuine(vote);
            let forgers: Vec<ReplicaId> = votes.iter().filter(forged).map(|vote| vote.voter).collect();
            if self.is_signed || !forgers.is_empty() {
                checked = votes.len() as u64;
            }
            if forgers.is_empty() { Ok(self.proof(subject.domain, votes.len())) } else { Err(forgers) }
        });
        self.verifications += checked;
        if let Ok(certificate) = &result {
            self.remember(certificate);
        }
        (result, checked)
    }
}

/// Returns a key of a certificate that is unique except with probability 2^-64.
fn name(certificate: &Certificate) -> u64 {
    let Certificate { subject, signers, .. } = certificate;
    let about = mix(mix(subject.digest.prefix(), subject.view.0), subject.domain as u64);
    signers.iter().fold(about, |sum, signer| mix(sum, u64::from(signer.0)))
}

/// Returns the number of signers of each different statement.
fn groups_of<'a>(
    epoch: &EpochId,
    subject: &Subject,
    attachments: impl ExactSizeIterator<Item = &'a Attachment> + Clone,
    signers: usize,
) -> Vec<usize> {
    match attachments.len() {
        0 => vec![signers],
        _ => Statements::new(epoch, subject, attachments).groups(signers),
    }
}

impl Device {
    pub fn sign(&self, vote: &mut Vote, epoch: &EpochId) {
        vote.signature = match self {
            Device::Real(crypto) => crypto.sign(&vote.statement(epoch)),
            Device::Modelled(modelled) => modelled.signature(vote.subject.domain),
        };
    }

    /// Verifies certificates and votes. Returns whether all are genuine, and the cost.
    pub fn verify(&mut self, certificates: &[Certificate], votes: &[Vote], charges: &Charges) -> (bool, Checks) {
        let (mut genuine, mut work) = (true, Checks::default());
        for certificate in certificates {
            let (sound, checked) = match self {
                Device::Real(crypto) => {
                    let before = crypto.verifications();
                    let sound = crypto.verify_certificate(certificate).is_ok();
                    (sound, crypto.verifications() - before)
                }
                Device::Modelled(modelled) => modelled.check(certificate),
            };
            genuine &= sound;
            if checked > 0 {
                let Certificate { subject, signers, attachments, .. } = certificate;
                let groups = groups_of(self.epoch(), subject, attachments.iter(), signers.len());
                let charges = charges.signatures(subject.domain);
                if let (Device::Modelled(modelled), true) = (&mut *self, sound) {
                    modelled.proofs.add(charges.effort(&groups));
                }
                work.add(charges.verify_proof(&groups));
            }
        }
        for vote in votes {
            work.add(charges.signatures(vote.subject.domain).verify(1));
            match self {
                Device::Real(crypto) => genuine &= crypto.verify_vote(vote),
                Device::Modelled(modelled) => {
                    modelled.verifications += 1;
                    genuine &= modelled.is_genuine(vote);
                }
            }
        }
        (genuine, work)
    }

    /// Assembles a certificate from votes. Returns it or the voters with forged signatures, and the cost.
    pub fn assemble(
        &mut self,
        subject: &Subject,
        votes: Vec<Vote>,
        charges: &Charges,
    ) -> (Result<Certificate, Vec<ReplicaId>>, Checks) {
        let charges = charges.signatures(subject.domain);
        let attachments = votes.iter().map(|vote| &vote.attachment);
        let groups = groups_of(self.epoch(), subject, attachments, votes.len());
        let (result, checked) = match self {
            Device::Real(crypto) => {
                let before = crypto.verifications();
                let result = crypto.assemble(subject, votes);
                (result, crypto.verifications() - before)
            }
            Device::Modelled(modelled) => modelled.assemble(subject, votes),
        };
        let checks = charges.assemble(&groups, checked, result.is_ok());
        (result, checks)
    }

    fn epoch(&self) -> &EpochId {
        match self {
            Device::Real(crypto) => crypto.epoch(),
            Device::Modelled(modelled) => &modelled.epoch,
        }
    }

    /// Returns the certificates verified since the start, and their cost.
    pub fn proofs(&self) -> Proofs {
        match self {
            Device::Real(crypto) => crypto.proofs(),
            Device::Modelled(modelled) => modelled.proofs,
        }
    }

    /// Returns the number of single signatures verified since the start.
    pub fn verifications(&self) -> u64 {
        match self {
            Device::Real(crypto) => crypto.verifications(),
            Device::Modelled(modelled) => modelled.verifications,
        }
    }
}
