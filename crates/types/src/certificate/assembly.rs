//! Making a certificate of votes.

use crate::{Attachment, Certificate, Quorum, ReplicaId, Signers, Subject, Vote};
use bytes::Bytes;
use std::mem::discriminant;

impl Certificate {
    /// Makes a certificate of votes by distinct voters on one subject. `prove` is given the votes, ascending by
    /// voter, and returns their proof, or the voters whose signatures are wrong.
    ///
    /// # Errors
    /// The voters, ascending, whose votes are of no use: strangers and those whose attachment is of another kind than
    /// most have (an honest majority decides), or else those whom `prove` has found. The others' votes can be handed
    /// in again with new ones.
    pub fn assemble(
        subject: &Subject,
        mut votes: Vec<Vote>,
        quorum: &Quorum,
        prove: impl FnOnce(&[Vote]) -> Result<Bytes, Vec<ReplicaId>>,
    ) -> Result<Certificate, Vec<ReplicaId>> {
        votes.sort_unstable_by_key(|vote| vote.voter);
        let misfits = misfits(&votes, quorum);
        if !misfits.is_empty() {
            return Err(misfits);
        }
        let proof = prove(&votes)?;
        let signers: Signers = votes.iter().map(|vote| vote.voter).collect();
        let said = votes.into_iter().map(|vote| vote.attachment).filter(|said| *said != Attachment::None);
        Ok(Certificate { subject: *subject, signers, attachments: said.collect(), proof })
    }
}

/// Voters that are no members, and voters whose attachment cannot stand beside the others' in one certificate.
fn misfits(votes: &[Vote], quorum: &Quorum) -> Vec<ReplicaId> {
    let alike = |vote: &Vote| {
        votes.iter().filter(|other| discriminant(&other.attachment) == discriminant(&vote.attachment)).count()
    };
    let uniform = votes.first().is_none_or(|first| alike(first) == votes.len());
    let misfit = |vote: &&Vote| vote.voter.index() >= quorum.replicas() || !uniform && alike(vote) * 2 <= votes.len();
    votes.iter().filter(misfit).map(|vote| vote.voter).collect()
}
