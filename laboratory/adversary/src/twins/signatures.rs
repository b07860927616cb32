//! Signatures of the world: free ones, or real signatures and MACs.
//!
//! Free signatures are empty and unforgeable: a statement is valid if the record shows that its signer has signed it in
//! this world. A certificate is valid if each of its signers has signed its statement. Nothing is hashed.

use crate::oracles::Words;
use crate::twins::words::{mix, mix_all};
use quorate_crypto::{Crypto, IDENTITY_SCHEME, MacKeys, ReplicaKeys, SEED_BYTES, SchemeKind};
use quorate_types::{
    Address, Attachment, Certificate, Committee, Domain, EpochId, Genesis, Quorum, ReplicaId, Subject, Vote,
    limits::MAX_REPLICAS,
};
use std::net::{Ipv4Addr, SocketAddr};

/// Maximum number of certificates that a member with real signatures remembers as verified.
const REMEMBERED_CERTIFICATES: usize = 64;

/// Scheme that signs and verifies votes and certificates.
pub enum Signatures {
    Free(FreeSignatures),
    /// Ed25519, with MACs on the votes that may have them; one device per member.
    Real(EpochId, Vec<Crypto>),
}

impl Signatures {
    pub fn free(epoch: &EpochId, quorum: Quorum) -> Signatures {
        Signatures::Free(FreeSignatures::new(epoch, quorum))
    }

    /// Returns real signatures, and MACs of a scheme, with fixed keys.
    ///
    /// # Panics
    /// If it is not a MAC scheme.
    pub fn real(genesis: &Genesis, macs: SchemeKind) -> Signatures {
        let quorum = genesis.quorum;
        let of_member = |member: usize| ReplicaKeys::from_seed(IDENTITY_SCHEME, [1 + member as u8; SEED_BYTES]);
        let keys: Vec<ReplicaKeys> = (0..quorum.replicas()).map(of_member).collect();
        let address = Address::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let members = keys.iter().map(|keys| keys.member(address.clone())).collect();
        let committee = Committee { members, ..genesis.committee() };
        let device = |(me, ReplicaKeys { identity, voting }): (ReplicaId, ReplicaKeys)| {
            let crypto = Crypto::new(IDENTITY_SCHEME, &committee, me, voting, REMEMBERED_CERTIFICATES);
            let macs = MacKeys::new(macs, &committee, me, &identity).expect("generated keys are valid");
            crypto.expect("generated keys are valid").with_macs(macs)
        };
        Signatures::Real(committee.epoch, committee.replicas().zip(keys).map(device).collect())
    }

    /// Forgets all signatures. Real ones need no record: equal statements have equal signatures.
    pub fn clear(&mut self) {
        if let Signatures::Free(free) = self {
            free.clear();
        }
    }

    /// Signs a vote for its voter. A replica cannot sign in another's name.
    pub fn sign(&mut self, signer: ReplicaId, vote: &mut Vote) {
        match self {
            Signatures::Free(free) => free.sign(signer, vote),
            Signatures::Real(epoch, devices) if vote.voter == signer => {
                vote.signature = devices[signer.index()].sign(&vote.statement(epoch));
            }
            Signatures::Real(..) => {}
        }
    }

    /// Returns whether a vote is genuine for a replica, since a MAC is valid only for its recipient.
    pub fn is_genuine(&mut self, to: ReplicaId, vote: &Vote) -> bool {
        match self {
            Signatures::Free(free) => free.is_genuine(vote),
            Signatures::Real(_, devices) => devices[to.index()].verify_vote(vote),
        }
    }

    /// Returns whether a certificate proves a quorum to a replica, or is the certificate of genesis.
    pub fn is_certified(&mut self, to: ReplicaId, certificate: &Certificate) -> bool {
        match self {
            Signatures::Free(free) => free.is_certified(certificate),
            Signatures::Real(_, devices) => devices[to.index()].verify_certificate(certificate).is_ok(),
        }
    }

    /// Assembles a certificate from a quorum of votes by distinct voters, at a replica.
    ///
    /// # Errors
    /// The voters whose votes cannot be used, as determined by [`Certificate::assemble`].
    pub fn assemble(
        &mut self,
        at: ReplicaId,
        subject: &Subject,
        votes: Vec<Vote>,
    ) -> Result<Certificate, Vec<ReplicaId>> {
        match self {
            Signatures::Free(free) => free.assemble(subject, votes),
            Signatures::Real(_, devices) => devices[at.index()].assemble(subject, votes),
        }
    }
}

/// Signatures that cost no computation: a statement is genuine if its signer has signed it here.
pub struct FreeSignatures {
    quorum: Quorum,
    genesis: Certificate,
    signed: Words<()>,
}

impl FreeSignatures {
    /// Returns an empty record.
    fn new(epoch: &EpochId, quorum: Quorum) -> FreeSignatures {
        FreeSignatures { quorum, genesis: Certificate::genesis(epoch), signed: Words::default() }
    }

    fn clear(&mut self) {
        self.signed.clear();
    }

    fn sign(&mut self, signer: ReplicaId, vote: &Vote) {
        if vote.voter == signer {
            self.signed.insert(statement(signer, &vote.subject, &vote.attachment), ());
        }
    }

    fn has_signed(&self, signer: ReplicaId, subject: &Subject, attachment: &Attachment) -> bool {
        self.signed.contains_key(&statement(signer, subject, attachment))
    }

    /// Returns whether a vote was signed by its voter.
    fn is_genuine(&self, vote: &Vote) -> bool {
        vote.signature.is_empty() && self.has_signed(vote.voter, &vote.subject, &vote.attachment)
    }

    /// Returns whether a certificate proves a quorum, or is the certificate of genesis.
    fn is_certified(&self, certificate: &Certificate) -> bool {
        let Certificate { subject, signers, attachments, proof } = certificate;
        if *certificate == self.genesis {
            return true;
        }
        let few = quorate_types::bug!(CheckpointByFew) && subject.domain == Domain::Checkpoint;
        let least = if few { self.quorum.weak() } else { self.quorum.quorum() };
        let members = signers.highest().is_none_or(|highest| highest.index() < self.quorum.replicas());
        members
            && signers.len() >= least
            && proof.is_empty()
            && (attachments.is_empty() || attachments.len() == signers.len())
            && (signers.iter().enumerate())
                .all(|(at, signer)| self.has_signed(signer, subject, certificate.attachment(at)))
    }

    fn assemble(&self, subject: &Subject, votes: Vec<Vote>) -> Result<Certificate, Vec<ReplicaId>> {
        Certificate::assemble(subject, votes, &self.quorum, |votes| {
            let forged = |vote: &&Vote| !self.is_genuine(vote);
            let forgers: Vec<ReplicaId> = votes.iter().filter(forged).map(|vote| vote.voter).collect();
            if forgers.is_empty() { Ok(bytes::Bytes::new()) } else { Err(forgers) }
        })
    }
}

/// Returns a hash of a statement. Two statements of one scenario collide with probability 2^-64.
pub fn statement(signer: ReplicaId, subject: &Subject, attachment: &Attachment) -> u64 {
    const _: () = assert!(MAX_REPLICAS <= 1 << 16, "a signer and a domain fit in a word");
    let about = mix(u64::from(signer.0) << 8 | subject.domain as u64, subject.view.0);
    let about = mix_all(about, [subject.height.0, subject.digest.prefix()]);
    match attachment {
        Attachment::None => about,
        Attachment::HighView(view) => mix_all(about, [1, view.0]),
        Attachment::HighCertificate(certificate) => {
            let Subject { domain, view, height, digest } = certificate.subject;
            mix_all(about, [2 + domain as u64, view.0, height.0, digest.prefix()])
        }
    }
}
