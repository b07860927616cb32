//! Screening of peers' messages, before any signature in them is verified.

use super::{MAX_VIEW_GAP, Views, may_be_forced};
use crate::data::block_limits::are_named;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::Admission;
use crate::protocols::views::message::{Proposal, Timeout};
use crate::protocols::views::{Family, begins, builds_on, shows_claimed_certificate};
use crate::seam::Drop;
use crate::voting::safety::timeout_subject;
use quorate_types::{Attachment, Certificate, ReplicaId, Vote};

impl<F: Family> Views<F> {
    pub(super) fn admit_proposal(&self, parts: &Parts, from: ReplicaId, proposal: &Proposal) -> Admission {
        let block = &proposal.block;
        if block.author != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        if block.is_optimistic() {
            return self.admit_optimistic(parts, from, proposal);
        }
        let fits = proposal.is_well_formed(from) && builds_on::<F>(&block.justify);
        // A leader that knows that a view is over must build on the certificate that ended it. Otherwise leader
        // reputation would count that view as a failure of its leader.
        let slanders = proposal
            .evidence
            .as_ref()
            .is_some_and(|evidence| evidence.subject.domain == F::ENDS_VIEW && evidence.view() == block.justify.view());
        let carried = are_named(&block.payload, &proposal.bundles);
        if !fits || slanders || !parts.may_propose(block) || !carried {
            return Admission::Drop(Drop::Malformed);
        }
        if block.height <= parts.store.committed() && from != parts.me {
            return Admission::Drop(Drop::Stale);
        }
        // A replica that is already in the view judges the proposal by the protocol's voting rule; the proposal does
        // not move it.
        let (evidence, moves) = (proposal.evidence.as_ref(), block.view > parts.pacemaker.view());
        let begun =
            begins::<F>(block.view, &block.justify, evidence) && (!moves || may_move::<F>(&block.justify, evidence));
        if !begun && !may_be_forced(block.view, parts) && !bug!(ViewJumpOnProposal) {
            return Admission::Drop(Drop::ViewNotJustified);
        }
        Admission::Check(self.claims(&block.justify, proposal.evidence.as_ref()))
    }

    pub(super) fn admit_vote(&self, family: &F, parts: &Parts, from: ReplicaId, vote: &Vote) -> Admission {
        if vote.voter != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        if vote.attachment.high_view().is_some() {
            return Admission::Drop(Drop::Malformed);
        }
        if let Err(why) = family.admit_vote(self.known(parts), &vote.subject) {
            return Admission::Drop(why);
        }
        let far = vote.subject.view.0 > parts.pacemaker.view().0 + MAX_VIEW_GAP;
        if far && !bug!(FarVotesCounted) {
            return Admission::Drop(Drop::TooFarAhead);
        }
        Admission::Tally(vote.clone())
    }

    pub(super) fn admit_timeout(&self, parts: &Parts, from: ReplicaId, timeout: &Timeout) -> Admission {
        let Timeout { vote, high, evidence } = timeout;
        if vote.voter != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        let says_the_same = match &vote.attachment {
            Attachment::HighCertificate(attached) => F::FACTS.timeouts_carry_certificates && **attached == *high,
            Attachment::HighView(view) => !F::FACTS.timeouts_carry_certificates && *view == high.view(),
            Attachment::None => false,
        };
        let fits = vote.subject == timeout_subject(vote.subject.view) && builds_on::<F>(high);
        if !fits || !says_the_same {
            return Admission::Drop(Drop::Malformed);
        }
        let begun = begins::<F>(vote.subject.view, high, evidence.as_ref()) && may_move::<F>(high, evidence.as_ref());
        if !begun && !may_be_forced(vote.subject.view, parts) && !bug!(FarTimeoutsCounted) {
            return Admission::Drop(Drop::ViewNotJustified);
        }
        Admission::Check(self.claims(high, evidence.as_ref()))
    }

    pub(super) fn admit_advance(&self, high: &Certificate, evidence: Option<&Certificate>) -> Admission {
        match may_move::<F>(high, evidence) {
            true => Admission::Check(self.claims(high, evidence)),
            false => Admission::Drop(Drop::ViewNotJustified),
        }
    }

    /// Returns the certificates in a message that still need verification.
    pub fn claims(&self, high: &Certificate, evidence: Option<&Certificate>) -> Vec<Certificate> {
        let mut claims = Vec::new();
        if self.high != *high {
            claims.push(high.clone());
        }
        if let Some(evidence) =
            evidence.filter(|evidence| self.evidence.as_ref() != Some(evidence) && **evidence != self.high)
        {
            // Only the highest certificate of an aggregate is verified (Fast-HotStuff, section 5: the others do not
            // matter).
            claims.extend(evidence.highest_attached_certificate().cloned());
            claims.push(evidence.clone());
        }
        claims
    }
}

/// Returns whether evidence, together with the certificate shown next to it, may move a replica to another view.
fn may_move<F: Family>(high: &Certificate, evidence: Option<&Certificate>) -> bool {
    shows_claimed_certificate::<F>(high.view(), evidence) || bug!(TimeoutsAlone)
}
