//! The crypto device of a simulated replica: the real one, or one that trusts and only costs.

use crate::charges::Charges;
use crate::trace::mix;
use bytes::Bytes;
use quorate_crypto::Crypto;
use quorate_types::{
    Attachment, Certificate, ClusterId, Quorum, ReplicaId, Signers, Subject, Vote, limits::MAX_REPLICAS,
};
use std::collections::{BTreeSet, VecDeque};
use std::mem::discriminant;

/// Bytes of a modelled signature: those of Ed25519.
const SIGNATURE_BYTES: usize = 64;
/// Certificates that a modelled device remembers as verified, as the real one does.
const CACHE: usize = quorate_crypto::DEFAULT_CACHE_CERTIFICATES;

static ZEROS: [u8; MAX_REPLICAS * SIGNATURE_BYTES] = [0; MAX_REPLICAS * SIGNATURE_BYTES];

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
    width: usize,
    /// Names of certificates that are known to be genuine.
    known: BTreeSet<u64>,
    order: VecDeque<u64>,
    verifications: u64,
}

impl Modelled {
    /// Signatures of a committee; without size and cost in the scheme `none`.
    pub fn new(cluster: ClusterId, quorum: Quorum, signed: bool) -> Modelled {
        let width = if signed { SIGNATURE_BYTES } else { 0 };
        let genesis = Certificate::genesis(&cluster);
        Modelled { genesis, quorum, width, known: BTreeSet::new(), order: VecDeque::new(), verifications: 0 }
    }

    fn remember(&mut self, certificate: &Certificate) {
        if self.width == 0 {
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
            && certificate.proof == ZEROS[..signers * self.width];
        if self.width == 0 || !sound || self.known.contains(&name(certificate)) {
            return (sound, 0);
        }
        self.verifications += signers as u64;
        self.remember(certificate);
        (true, signers as u64)
    }

    fn is_genuine(&self, vote: &Vote) -> bool {
        vote.signature == ZEROS[..self.width]
    }

    fn assemble(&mut self, subject: &Subject, mut votes: Vec<Vote>) -> (Result<Certificate, Vec<ReplicaId>>, u64) {
        votes.sort_unstable_by_key(|vote| vote.voter);
        let alike = |vote: &Vote| {
            votes.iter().filter(|other| discriminant(&other.attachment) == discriminant(&vote.attachment)).count()
        };
        if alike(&votes[0]) != votes.len() {
            let misfits = votes.iter().filter(|vote| alike(vote) * 2 <= votes.len()).map(|vote| vote.voter);
            return (Err(misfits.collect()), 0);
        }
        let forged = |vote: &&Vote| !self.is_genuine(vote);
        let forgers: Vec<ReplicaId> = votes.iter().filter(forged).map(|vote| vote.voter).collect();
        if !forgers.is_empty() {
            self.verifications += votes.len() as u64;
            return (Err(forgers), votes.len() as u64);
        }
        let count = votes.len();
        let signers: Signers = votes.iter().map(|vote| vote.voter).collect();
        let said = votes.into_iter().map(|vote| vote.attachment).filter(|said| *said != Attachment::None);
        let attachments = said.collect();
        let proof = Bytes::from_static(&ZEROS[..count * self.width]);
        let certificate = Certificate { subject: *subject, signers, attachments, proof };
        let checked = if self.width == 0 { 0 } else { count as u64 };
        self.verifications += checked;
        self.remember(&certificate);
        (Ok(certificate), checked)
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
            Device::Modelled(modelled) => Bytes::from_static(&ZEROS[..modelled.width]),
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
            cost += charges.verify(checked);
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
                let before = crypto.verifications();
                let result = crypto.assemble(subject, votes);
                (result, charges.verify(crypto.verifications() - before))
            }
            Device::Modelled(modelled) => {
                let (result, checked) = modelled.assemble(subject, votes);
                (result, charges.verify(checked))
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
