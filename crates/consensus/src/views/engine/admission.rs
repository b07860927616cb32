//! A cheap look at what peers say, before anything in it is checked.

use super::{MAX_VIEW_GAP, Views, may_be_forced};
use crate::block_limits::are_named;
use crate::replica::{Admission, Parts};
use crate::safety::timeout_subject;
use crate::seam::Drop;
use crate::views::message::{Proposal, Timeout};
use crate::views::{Family, begins, builds_on, shows_what_it_tells};
use quorate_types::{Attachment, Certificate, ReplicaId, Vote};

impl<F: Family> Views<F> {
    pub(super) fn admit_proposal(&self, parts: &Parts, from: ReplicaId, proposal: &Proposal) -> Admission {
        let block = &proposal.block;
        if block.author != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        let fits = proposal.is_well_formed(from) && builds_on::<F>(&block.justify);
        // Whoever knows that a view came to its end builds on what shows it, lest its leader be blamed.
        let slanders = proposal
            .evidence
            .as_ref()
            .is_some_and(|evidence| evidence.subject.domain == F::ENDS_VIEW && evidence.view() == block.justify.view());
        let carried = are_named(&block.payload, &proposal.bundles);
        if !fits || slanders || block.payload.len() > parts.config.batch || !carried {
            return Admission::Drop(Drop::Malformed);
        }
        if block.height <= parts.store.committed() && from != parts.me {
            return Admission::Drop(Drop::Stale);
        }
        // Who is in the view already judges the proposal by the rules of the protocol, and is not moved by it.
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
        if let Err(why) = family.admit_vote(self, parts, &vote.subject) {
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

    /// The certificates of a message that are not known to be genuine.
    pub fn claims(&self, high: &Certificate, evidence: Option<&Certificate>) -> Vec<Certificate> {
        let mut claims = Vec::new();
        if self.high != *high {
            claims.push(high.clone());
        }
        if let Some(evidence) =
            evidence.filter(|evidence| self.evidence.as_ref() != Some(evidence) && **evidence != self.high)
        {
            // Of an aggregate only the highest certificate is checked (Fast-HotStuff, section 5: the others do not matter).
            claims.extend(evidence.highest_attached_certificate().cloned());
            claims.push(evidence.clone());
        }
        claims
    }
}

/// Whether evidence may move a replica to another view by what is shown with it.
fn may_move<F: Family>(high: &Certificate, evidence: Option<&Certificate>) -> bool {
    shows_what_it_tells::<F>(high.view(), evidence) || bug!(TimeoutsAlone)
}
