//! Which proposals a replica considers, and which it votes for.

use super::{REMEMBERED_PROPOSALS, Views};
use crate::config::LeaderKind;
use crate::protocols::outbox::Outbox;
use crate::protocols::parts::Parts;
use crate::protocols::views::message::{Proposal, ViewMessage};
use crate::protocols::views::{Candidate, Family, votes_to};
use crate::seam::{Drop, Evidence, Mark, To};
use quorate_types::{ReplicaId, Time};
use std::sync::Arc;

impl<F: Family> Views<F> {
    /// Returns whether this is the author's first proposal in its view, as far as remembered. A different earlier
    /// proposal is reported as evidence.
    pub(super) fn is_first(&mut self, proposal: &Proposal, out: &mut Outbox<F::Message>) -> bool {
        let endorsement = &proposal.endorsement;
        let place = (endorsement.subject.view, endorsement.voter);
        if let Some(earlier) = self.proposals.get(&place) {
            if earlier.subject != endorsement.subject {
                out.suspect(Evidence { first: earlier.clone(), second: endorsement.clone() });
            }
            return false;
        }
        self.proposals.insert(place, endorsement.clone());
        let forgotten = if self.proposals.len() > REMEMBERED_PROPOSALS { self.proposals.pop_first() } else { None };
        forgotten.is_none_or(|(forgotten, _)| forgotten != place)
    }

    pub(super) fn try_vote(&mut self, now: Time, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        loop {
            let decidable = |candidate: &Arc<Proposal>| parts.store.tree.get(&candidate.block.digest()).is_some();
            let Some(at) = self.candidates.iter().position(decidable) else { return };
            let proposal = self.candidates.swap_remove(at);
            let (block, tree) = (&proposal.block, &parts.store.tree);
            if self.leads(&proposal, parts) != Some(true) {
                out.drop_message(block.author, Drop::NotTheLeader);
                continue;
            }
            let candidate = Candidate { block, evidence: proposal.evidence.as_ref(), lock: parts.safety.lock() };
            if let Err(rule) = F::may_vote(candidate, tree) {
                out.mark(Mark::Refused { view: block.view, rule });
                continue;
            }
            let (to, leader) = (votes_to::<F>(block, parts), block.author);
            if self.passes_over(now, leader, parts, out) {
                out.mark(Mark::Refused { view: block.view, rule: "the leader passes over what has waited longest" });
                continue;
            }
            if let Some(ballot) = parts.safety.vote_in(F::VOTES, block) {
                self.collector = if let To::One(collector) = to { Some(collector) } else { None };
                self.keep(Some(&block.digest()), parts, out);
                out.cast(parts, &ballot, to, |vote| ViewMessage::Vote(vote).into());
            }
        }
    }

    /// Returns whether the leader of a proposal keeps passing over the command that has waited longest. While f+1
    /// replicas withhold their votes for that reason, the leader's views fail, until another replica leads.
    fn passes_over(&self, now: Time, leader: ReplicaId, parts: &mut Parts, out: &mut Outbox<F::Message>) -> bool {
        if leader == parts.me {
            return false;
        }
        out.hold_to_account(now, now, leader, parts)
    }

    /// Returns whether the proposer leads the view of its block, judged by the basis in the proposal itself: the votes
    /// of the previous view or, after a timeout, the certificate it extends, if that may determine the leader
    /// ([`Family::elects`]). `None` while the block that determines the leader is missing.
    pub(super) fn leads(&self, proposal: &Proposal, parts: &Parts) -> Option<bool> {
        let block = &proposal.block;
        let justify = &block.justify;
        let basis = F::basis(block.view, justify, proposal.evidence.as_ref());
        let elects = parts.config.leader == LeaderKind::RoundRobin || F::elects(justify, proposal.evidence.as_ref());
        let leader = parts.leaders.leader(block.view, &basis, &parts.store.tree)?;
        Some(elects && (leader == block.author || bug!(AnyProposer)))
    }
}
