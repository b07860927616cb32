//! The crypto device of a simulated replica: the real one, or one that trusts and only costs.

use crate::charges::Charges;
use crate::trace::mix;
use bytes::Bytes;
use quorate_crypto::{Crypto, SchemeProfile};
use quorate_types::identity::ProofShape;
use quorate_types::{Certificate, ClusterId, Quorum, ReplicaId, Subject, Vote};
use std::collections::{BTreeSet, VecDeque};

/// Certificates that a modelled device remembers as verified, as the real one does.
const CACHE: usize = quorate_crypto::DEFAULT_CACHE_CERTIFICATES;

/// Signs and checks.
pub enum Device {
    /// Makes and checks real signatures.
    Real(Box<Crypto>),
    /// Signatures are true by construction, and of the right size.
    Modelled(Box<Modelled>),
}

/// What a device that trusts has to know.
pub struct Modelled {
    genesis: Certificate,
    quorum: Quorum,
    shape: ProofShape,
    /// Whether signatures are to be checked at all.
    is_signed: bool,
    /// As many zeros as the longest proof has bytes: every signature and every proof is of these.
    zeros: Bytes,
    /// Names of certificates that are known to be genuine.
    known: BTreeSet<u64>,
    order: VecDeque<u64>,
    verifications: u64,
}

impl Modelled {
    /// Signatures of a committee, as long as those of a scheme.
    pub fn new(cluster: ClusterId, quorum: Quorum, profile: &SchemeProfile) -> Modelled {
        let shape = profile.shape(quorum.replicas());
        Modelled {
            genesis: Certificate::genesis(&cluster),
            quorum,
            shape,
            is_signed: profile.unforgeable,
            zeros: vec![0; shape.proof_bytes(quorum.replicas())].into(),
            known: BTreeSet::new(),
            order: VecDeque::new(),
            verifications: 0,
        }
    }

    fn signature(&self) -> Bytes {
        self.zeros.slice(..self.shape.signature_bytes)
    }

    fn proof(&self, signers: usize) -> Bytes {
        self.zeros.slice(..self.shape.proof_bytes(signers))
    }

    fn remember(&mut self, certificate: &Certificate) {
        if !self.is_signed {
            return;
        }
        let key = name(certificate);
        if self.known.insert(key) {
            self.order.push_back(key);
        }
        if self.order.len() > CACHE {
            let oldest = self.order.pop_front().expect("there is more than one");
            self.known.remove(&oldest);
        }
    }

    fn check(&mut self, certificate: &Certificate) -> (bool, u64) {
        if *certificate == self.genesis {
            return (true, 0);
        }
        let signers = certificate.signers.len();
        let sound = signers >= self.quorum.quorum()
            && certificate.signers.highest().is_none_or(|highest| highest.index() < self.quorum.replicas())
            && certificate.proof[..] == self.zeros[..self.shape.proof_bytes(signers)];
        if !self.is_signed || !sound || self.known.contains(&name(certificate)) {
            return (sound, 0);
        }
        self.verifications += signers as u64;
        self.remember(certificate);
        (true, signers as u64)
    }

    fn is_genuine(&self, vote: &Vote) -> bool {
        vote.signature[..] == self.zeros[..self.shape.signature_bytes]
    }

    /// Makes a certificate, and says how many signatures were checked for it.
    fn assemble(&mut self, subject: &Subject, votes: Vec<Vote>) -> (Result<Certificate, Vec<ReplicaId>>, u64) {
        let mut checked = 0;
        let result = Certificate::assemble(subject, votes, &self.quorum, |votes| {
            let forged = |vote: &&Vote| !self.is_genuine(vote);
            let forgers: Vec<ReplicaId> = votes.iter().filter(forged).map(|vote| vote.voter).collect();
            if self.is_signed || !forgers.is_empty() {
                checked = votes.len() as u64;
            }
            if forgers.is_empty() { Ok(self.proof(votes.len())) } else { Err(forgers) }
        });
        self.verifications += checked;
        if let Ok(certificate) = &result {
            self.remember(certificate);
        }
        (result, checked)
    }
}

/// A name that no other certificate of a run has, but for a chance of 2^-64.
fn name(certificate: &Certificate) -> u64 {
    let Certificate { subject, signers, .. } = certificate;
    let about = mix(mix(subject.digest.prefix(), subject.view.0), subject.domain as u64);
    signers.iter().fold(about, |sum, signer| mix(sum, u64::from(signer.0)))
}

impl Device {
    /// Signs a vote.
    pub fn sign(&self, vote: &mut Vote, cluster: &ClusterId) {
        vote.signature = match self {
            Device::Real(crypto) => crypto.sign(&vote.statement(cluster)),
            Device::Modelled(modelled) => modelled.signature(),
        };
    }

    /// Whether certificates and votes are genuine, and what it costs to know, in picoseconds.
    pub fn verify(&mut self, certificates: &[Certificate], votes: &[Vote], charges: &Charges) -> (bool, u64) {
        let (mut genuine, mut cost) = (true, 0);
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
            cost += charges.verify_proof(checked);
        }
        for vote in votes {
            cost += charges.verify(1);
            match self {
                Device::Real(crypto) => genuine &= crypto.verify_vote(vote),
                Device::Modelled(modelled) => {
                    modelled.verifications += 1;
                    genuine &= modelled.is_genuine(vote);
                }
            }
        }
        (genuine, cost)
    }

    /// Makes a certificate of votes, and says what that costs, in picoseconds.
    pub fn assemble(
        &mut self,
        subject: &Subject,
        votes: Vec<Vote>,
        charges: &Charges,
    ) -> (Result<Certificate, Vec<ReplicaId>>, u64) {
        match self {
            Device::Real(crypto) => {
                let (before, signers) = (crypto.verifications(), votes.len() as u64);
                let result = crypto.assemble(subject, votes);
                let assembled = if result.is_ok() { charges.assemble(signers) } else { 0 };
                (result, charges.verify(crypto.verifications() - before) + assembled)
            }
            Device::Modelled(modelled) => {
                let signers = votes.len() as u64;
                let (result, checked) = modelled.assemble(subject, votes);
                let assembled = if result.is_ok() { charges.assemble(signers) } else { 0 };
                (result, charges.verify(checked) + assembled)
            }
        }
    }

    /// Single signatures checked since the start.
    pub fn verifications(&self) -> u64 {
        match self {
            Device::Real(crypto) => crypto.verifications(),
            Device::Modelled(modelled) => modelled.verifications,
        }
    }
}
