//! Toy signatures: a hash keyed by a secret that only the harness knows. A test obtains signatures only from the
//! harness, and signatures are really verified, so forged votes and certificates are detected.

use bytes::Bytes;
use quorate_types::{Attachment, Certificate, EpochId, Hasher, Quorum, ReplicaId, Signers, Statement, Subject, Vote};

const SIGNATURE_BYTES: usize = 32;

/// The keys of all replicas of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    pub epoch: EpochId,
    pub quorum: Quorum,
}

impl Keys {
    /// Returns a signed vote of `voter`.
    pub fn vote(&self, voter: ReplicaId, subject: Subject, attachment: Attachment) -> Vote {
        let signature = self.signature(voter, &subject, &attachment);
        Vote { subject, attachment, voter, signature }
    }

    /// Signs in the name of `voter`.
    pub fn signature(&self, voter: ReplicaId, subject: &Subject, attachment: &Attachment) -> Bytes {
        let mut hasher = Hasher::new(*b"tKEY");
        hasher.update(&voter.0.to_le_bytes());
        hasher.update(Statement::new(&self.epoch, subject, attachment).as_bytes());
        Bytes::copy_from_slice(&hasher.finish().0)
    }

    /// Returns whether the voter's signature is valid.
    pub fn is_vote_genuine(&self, vote: &Vote) -> bool {
        vote.voter.index() < self.quorum.replicas()
            && vote.signature == self.signature(vote.voter, &vote.subject, &vote.attachment)
    }

    /// Returns whether a quorum of distinct replicas signed the certificate.
    pub fn is_certificate_genuine(&self, certificate: &Certificate) -> bool {
        let Certificate { subject, signers, attachments, proof } = certificate;
        let enough = signers.len() >= self.quorum.quorum();
        let members = signers.iter().all(|signer| signer.index() < self.quorum.replicas());
        let complete = attachments.is_empty() || attachments.len() == signers.len();
        if !enough || !members || !complete || proof.len() != signers.len() * SIGNATURE_BYTES {
            return false;
        }
        signers.iter().enumerate().all(|(at, signer)| {
            let signature = &proof[at * SIGNATURE_BYTES..(at + 1) * SIGNATURE_BYTES];
            *signature == self.signature(signer, subject, certificate.attachment(at))
        })
    }

    /// Assembles a certificate from votes, or returns the voters with invalid votes.
    pub fn assemble(&self, subject: Subject, votes: &[Vote]) -> Result<Certificate, Vec<ReplicaId>> {
        Certificate::assemble(&subject, votes.to_vec(), &self.quorum, |votes| {
            let forged = |vote: &&Vote| !self.is_vote_genuine(vote);
            let forgers: Vec<ReplicaId> = votes.iter().filter(forged).map(|vote| vote.voter).collect();
            let proof = || votes.iter().flat_map(|vote| vote.signature.iter().copied()).collect();
            if forgers.is_empty() { Ok(proof()) } else { Err(forgers) }
        })
    }

    /// Assembles a certificate as a faulty replica would, without verifying the votes.
    pub fn put_together(&self, subject: Subject, votes: &[Vote]) -> Certificate {
        Certificate {
            subject,
            signers: votes.iter().map(|vote| vote.voter).collect(),
            attachments: votes.iter().map(|vote| vote.attachment.clone()).collect(),
            proof: votes.iter().flat_map(|vote| vote.signature.iter().copied()).collect(),
        }
    }

    /// Returns a genuine certificate signed by the named replicas.
    pub fn certificate(&self, subject: Subject, signers: impl IntoIterator<Item = u16>) -> Certificate {
        let votes: Vec<Vote> =
            signers.into_iter().map(|signer| self.vote(ReplicaId(signer), subject, Attachment::None)).collect();
        self.assemble(subject, &votes).expect("the votes are genuine")
    }
}

/// Returns a certificate that falsely claims the signatures of these replicas.
pub fn forged_certificate(subject: Subject, signers: impl IntoIterator<Item = u16>) -> Certificate {
    let signers: Signers = signers.into_iter().map(ReplicaId).collect();
    let proof = Bytes::from(vec![7; signers.len() * SIGNATURE_BYTES]);
    Certificate { subject, signers, attachments: Vec::new(), proof }
}
