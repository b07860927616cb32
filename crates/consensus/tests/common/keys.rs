//! Toy signatures: a hash keyed by a secret that only the harness knows. They cannot be made by a test that does not ask for them,
//! and they are really checked, so that a forged vote or certificate is found out.

use bytes::Bytes;
use quorate_types::{Attachment, Certificate, ClusterId, Hasher, Quorum, ReplicaId, Signers, Statement, Subject, Vote};

const SIGNATURE_BYTES: usize = 32;

/// The keys of all replicas of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    pub cluster: ClusterId,
    pub quorum: Quorum,
}

impl Keys {
    /// A vote of `voter`, signed.
    pub fn vote(&self, voter: ReplicaId, subject: Subject, attachment: Attachment) -> Vote {
        let signature = self.signature(voter, &subject, &attachment);
        Vote { subject, attachment, voter, signature }
    }

    /// Signs in the name of `voter`.
    pub fn signature(&self, voter: ReplicaId, subject: &Subject, attachment: &Attachment) -> Bytes {
        let mut hasher = Hasher::new(*b"tKEY");
        hasher.update(&voter.0.to_le_bytes());
        hasher.update(Statement::new(&self.cluster, subject, attachment).as_bytes());
        Bytes::copy_from_slice(&hasher.finish().0)
    }

    /// Whether a vote is its voter's.
    pub fn is_vote_genuine(&self, vote: &Vote) -> bool {
        vote.voter.index() < self.quorum.replicas()
            && vote.signature == self.signature(vote.voter, &vote.subject, &vote.attachment)
    }

    /// Whether a quorum of distinct replicas signed what a certificate says.
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

    /// The certificate that votes make, or the voters whose votes are of no use.
    pub fn assemble(&self, subject: Subject, votes: &[Vote]) -> Result<Certificate, Vec<ReplicaId>> {
        Certificate::assemble(&subject, votes.to_vec(), &self.quorum, |votes| {
            let forged = |vote: &&Vote| !self.is_vote_genuine(vote);
            let forgers: Vec<ReplicaId> = votes.iter().filter(forged).map(|vote| vote.voter).collect();
            let proof = || votes.iter().flat_map(|vote| vote.signature.iter().copied()).collect();
            if forgers.is_empty() { Ok(proof()) } else { Err(forgers) }
        })
    }

    /// The certificate that a liar makes of votes: whether they can stand in one it does not ask.
    pub fn put_together(&self, subject: Subject, votes: &[Vote]) -> Certificate {
        Certificate {
            subject,
            signers: votes.iter().map(|vote| vote.voter).collect(),
            attachments: votes.iter().map(|vote| vote.attachment.clone()).collect(),
            proof: votes.iter().flat_map(|vote| vote.signature.iter().copied()).collect(),
        }
    }

    /// A genuine certificate that the named replicas all signed.
    pub fn certificate(&self, subject: Subject, signers: impl IntoIterator<Item = u16>) -> Certificate {
        let votes: Vec<Vote> =
            signers.into_iter().map(|signer| self.vote(ReplicaId(signer), subject, Attachment::None)).collect();
        self.assemble(subject, &votes).expect("all of it was just signed")
    }
}

/// A certificate in which somebody claims the signatures of replicas that did not sign.
pub fn forged_certificate(subject: Subject, signers: impl IntoIterator<Item = u16>) -> Certificate {
    let signers: Signers = signers.into_iter().map(ReplicaId).collect();
    let proof = Bytes::from(vec![7; signers.len() * SIGNATURE_BYTES]);
    Certificate { subject, signers, attachments: Vec::new(), proof }
}
