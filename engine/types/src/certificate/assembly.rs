//! Assembly of certificates from votes.

use crate::{Attachment, Certificate, Quorum, ReplicaId, Signers, Subject, Vote};
use bytes::Bytes;
use std::mem::discriminant;

impl Certificate {
    /// Creates a certificate from votes by distinct voters on one subject. `prove` receives the votes, in ascending
    /// order of voters, and returns their proof or the voters whose signatures are invalid.
    ///
    /// # Errors
    /// Returns the voters with unusable votes, in ascending order: non-members and voters whose kind of attachment
    /// differs from the majority's (honest voters are a majority); if there are none, the voters that `prove` rejects.
    /// The other votes can be reused together with new ones.
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

/// Returns voters that are not members, and voters whose attachment is incompatible with the majority's.
fn misfits(votes: &[Vote], quorum: &Quorum) -> Vec<ReplicaId> {
    let alike = |vote: &Vote| {
        votes.iter().filter(|other| discriminant(&other.attachment) == discriminant(&vote.attachment)).count()
    };
    let uniform = votes.first().is_none_or(|first| alike(first) == votes.len());
    let misfit = |vote: &&Vote| vote.voter.index() >= quorum.replicas() || !uniform && alike(vote) * 2 <= votes.len();
    votes.iter().filter(misfit).map(|vote| vote.voter).collect()
}
