//! Signatures of the world: empty, free, and unforgeable.
//!
//! A statement is valid if its signer has signed it in this world, according to the record. A certificate is valid if
//! each of its signers has signed its statement. Nothing is hashed.

use crate::words::{mix, mix_all};
use quorate_oracles::Words;
use quorate_types::{Attachment, Certificate, ClusterId, Quorum, ReplicaId, Subject, Vote, limits::MAX_REPLICAS};

/// Record of all signatures.
pub struct FreeSignatures {
    quorum: Quorum,
    genesis: Certificate,
    signed: Words<()>,
}

impl FreeSignatures {
    /// Returns an empty record.
    pub fn new(cluster: &ClusterId, quorum: Quorum) -> FreeSignatures {
        FreeSignatures { quorum, genesis: Certificate::genesis(cluster), signed: Words::default() }
    }

    pub fn clear(&mut self) {
        self.signed.clear();
    }

    /// Signs a vote for its voter. A replica cannot sign in another's name.
    pub fn sign(&mut self, signer: ReplicaId, vote: &Vote) {
        if vote.voter == signer {
            self.signed.insert(statement(signer, &vote.subject, &vote.attachment), ());
        }
    }

    fn has_signed(&self, signer: ReplicaId, subject: &Subject, attachment: &Attachment) -> bool {
        self.signed.contains_key(&statement(signer, subject, attachment))
    }

    /// Returns whether its voter signed a vote.
    pub fn is_genuine(&self, vote: &Vote) -> bool {
        vote.signature.is_empty() && self.has_signed(vote.voter, &vote.subject, &vote.attachment)
    }

    /// Returns whether a certificate proves a quorum, or is that of genesis.
    pub fn is_certified(&self, certificate: &Certificate) -> bool {
        let Certificate { subject, signers, attachments, proof } = certificate;
        if *certificate == self.genesis {
            return true;
        }
        let members = signers.highest().is_none_or(|highest| highest.index() < self.quorum.replicas());
        members
            && signers.len() >= self.quorum.quorum()
            && proof.is_empty()
            && (attachments.is_empty() || attachments.len() == signers.len())
            && (signers.iter().enumerate())
                .all(|(at, signer)| self.has_signed(signer, subject, certificate.attachment(at)))
    }

    /// Makes a certificate from a quorum of votes by distinct voters.
    ///
    /// # Errors
    /// The voters whose votes cannot be used, as [`Certificate::assemble`] finds them.
    pub fn assemble(&self, subject: &Subject, votes: Vec<Vote>) -> Result<Certificate, Vec<ReplicaId>> {
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
