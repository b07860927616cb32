//! Checks of proposals, and votes for them.

use super::{MAX_REMEMBERED_PROPOSALS, Views};
use crate::config::LeaderKind;
use crate::protocols::outbox::Outbox;
use crate::protocols::parts::Parts;
use crate::protocols::turn::Turn;
use crate::protocols::views::message::{Proposal, ViewMessage};
use crate::protocols::views::{Candidate, Family, votes_to};
use crate::recovery::journal::Record;
use crate::seam::{Drop, Evidence, Mark, To};
use quorate_types::{Block, Digest, Domain};
use std::sync::Arc;

impl<F: Family> Views<F> {
    /// Returns the number of bundles in the block with the highest certificate, or 0 if this replica does not have the
    /// block.
    pub(super) fn named(&self, parts: &Parts) -> usize {
        parts.store.tree.get(&self.high.subject.digest).map_or(0, |block| block.payload.len())
    }

    /// Returns whether this is the author's first proposal of its kind in its view, as far as this replica remembers. A
    /// different earlier proposal of that kind is reported as evidence.
    pub(super) fn is_first(&mut self, proposal: &Proposal, out: &mut Outbox<F::Message>) -> bool {
        let endorsement = &proposal.endorsement;
        let place = (endorsement.subject.view, endorsement.voter, endorsement.subject.domain);
        if let Some(earlier) = self.proposals.get(&place) {
            if earlier.subject != endorsement.subject {
                out.suspect(Evidence { first: earlier.clone(), second: endorsement.clone() });
            }
            return false;
        }
        self.proposals.insert(place, endorsement.clone());
        let forgotten = if self.proposals.len() > MAX_REMEMBERED_PROPOSALS { self.proposals.pop_first() } else { None };
        forgotten.is_none_or(|(forgotten, _)| forgotten != place)
    }

    pub(super) fn try_vote(&mut self, turn: &mut Turn<'_, F::Message>) {
        loop {
            let decidable = |candidate: &Arc<Proposal>| self.is_decidable(&candidate.block, turn.parts);
            let Some(at) = self.candidates.iter().position(decidable) else { return };
            let proposal = self.candidates.swap_remove(at);
            let (block, tree) = (&proposal.block, &turn.parts.store.tree);
            if self.leads(&proposal, turn.parts) != Some(true) {
                turn.out.drop_message(block.author, Drop::NotTheLeader);
                continue;
            }
            let candidate =
                Candidate { block, evidence: proposal.evidence(), lock: self.lock_against(block, turn.parts) };
            let unchecked = bug!(ParentUncertified) && block.is_optimistic();
            if let Err(rule) = F::may_vote(candidate, tree)
                && !unchecked
                && !(bug!(LockElsewhere) && block.is_optimistic())
            {
                turn.out.mark(Mark::Refused { view: block.view, rule });
                continue;
            }
            let (to, leader) = (votes_to::<F>(block, turn.parts), block.author);
            if turn.parts.safety.may_vote_in(F::VOTES, block.view)
                && let Err(why) = turn.judge_time(block)
            {
                turn.out.drop_message(leader, why);
                continue;
            }
            // If f+1 replicas withhold their votes for this reason, the leader's views fail until another replica
            // leads.
            if leader != turn.parts.me && turn.judge_leader(turn.now, leader) {
                turn.out
                    .mark(Mark::Refused { view: block.view, rule: "the leader passes over what has waited longest" });
                continue;
            }
            if F::FACTS.awaited_delays > 0 && turn.parts.safety.may_vote_in(F::VOTES, block.view) {
                turn.parts.safety.lock_on(block.justify.subject);
            }
            if let Some(ballot) = turn.parts.safety.vote_in(F::VOTES, block) {
                self.collector = if let To::One(collector) = to { Some(collector) } else { None };
                self.keep(Some(&block.digest()), turn);
                turn.cast(&ballot, to, |vote| ViewMessage::Vote(vote).into());
                self.propose_optimistically(turn);
            }
        }
    }

    /// Votes for a block in a later phase of its view, whose leader collects the votes of all phases.
    pub(super) fn vote_in_phase(&mut self, phase: Domain, block: &Block, turn: &mut Turn<'_, F::Message>) {
        if let Some(ballot) = turn.parts.safety.vote_in(phase, block) {
            self.keep(Some(&block.digest()), turn);
            turn.cast(&ballot, To::One(block.author), |vote| ViewMessage::Vote(vote).into());
        }
    }

    /// Journals the certificates on which this replica's next statement is based. The certificate inside `block`, for
    /// which it is about to vote, need not be journaled twice, because it is recalled with the vote. A crash may lose
    /// the vote, so the certificate that began the view is never kept without the highest certificate that it names.
    pub(super) fn keep(&mut self, block: Option<&Digest>, turn: &mut Turn<'_, F::Message>) {
        let evidence = self.evidence.as_ref().filter(|evidence| self.kept_evidence != Some(evidence.subject));
        if let Some(digest) = block {
            turn.keep_block(digest);
            let in_block = |block: &Arc<Block>| evidence.is_none() && block.justify == self.high;
            if turn.parts.store.tree.get(digest).is_some_and(in_block) {
                self.kept_high = self.high.subject;
            }
        }
        if self.kept_high != self.high.subject {
            self.kept_high = self.high.subject;
            turn.out.persist(Record::Certificate(Box::new(self.high.clone())));
        }
        if let Some(evidence) = evidence {
            self.kept_evidence = Some(evidence.subject);
            turn.out.persist(Record::Certificate(Box::new(evidence.clone())));
        }
    }

    /// Returns whether the proposer leads the view of its block. The election is based on the proposal itself: on the
    /// votes of the previous view or, after a timeout, on the certificate that it extends, if that may determine the
    /// leader ([`Family::elects`]). Returns `None` while the block that determines the leader is missing.
    pub(super) fn leads(&self, proposal: &Proposal, parts: &Parts) -> Option<bool> {
        let block = &proposal.block;
        let justify = &block.justify;
        let basis = F::basis(block.view, justify, proposal.evidence());
        let elects = parts.config.leader == LeaderKind::RoundRobin || F::elects(justify, proposal.evidence());
        let leader = parts.leaders.leader(block.view, &basis, &parts.store.tree)?;
        Some(elects && (leader == block.author || bug!(AnyProposer)))
    }
}
