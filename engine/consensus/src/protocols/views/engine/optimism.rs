//! Optimistic proposals: the leader of the next view extends the block that it has just voted for in the current
//! view.
//!
//! Such a proposal is valid if its parent is certified in the preceding view. Otherwise the leader proposes again once
//! the view has begun. The two proposals are statements in different domains, so they do not contradict each other.

use super::Views;
use crate::data::batching::{Decision, Room, Situation};
use crate::data::block_limits::are_named;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::Admission;
use crate::protocols::turn::Turn;
use crate::protocols::views::message::{Proposal, ViewMessage};
use crate::protocols::views::{Family, builds_on, collector};
use crate::seam::{Drop, Timer, To};
use quorate_types::{Block, Domain, ReplicaId, Subject, View};
use std::sync::Arc;

/// Maximum number of views by which an optimistic proposal may be ahead of its recipient's view, after the recipient
/// has learnt the certificate shown with the proposal: one, plus one because the leader may have learnt of a timeout
/// earlier.
pub(super) const MAX_VIEWS_AHEAD: u64 = 2;

impl<F: Family> Views<F> {
    /// Screens an optimistic proposal. Its parent is not certified, so there is no proof that its view is about to
    /// begin.
    pub(super) fn admit_optimistic(&self, parts: &Parts, from: ReplicaId, proposal: &Proposal) -> Admission {
        let (block, high) = (&proposal.block, proposal.evidence.as_ref());
        let fits = F::FACTS.optimistic_proposals && proposal.is_well_formed(from) && builds_on::<F>(&block.justify);
        let shown = high.is_none_or(|high| builds_on::<F>(high) && high.view() < block.view);
        if !fits || !shown || !parts.may_propose(block) || !are_named(&block.payload, &proposal.bundles) {
            return Admission::Drop(Drop::Malformed);
        }
        if block.height <= parts.store.committed() && from != parts.me {
            return Admission::Drop(Drop::Stale);
        }
        // The votes have nearly always shown this replica the certificate before; then it is not verified again.
        let news = high.filter(|high| high.view() > self.high.view());
        let reached = news.map_or(View(0), |high| high.view().next()).max(parts.pacemaker.view());
        if block.view.0 > reached.0 + MAX_VIEWS_AHEAD {
            return Admission::Drop(Drop::TooFarAhead);
        }
        Admission::Check(news.cloned().into_iter().collect())
    }

    /// Returns whether a block may get a vote in `view` or, if it is optimistic, in one of the views after it.
    pub(super) fn is_candidate(&self, block: &Block, view: View) -> bool {
        let ahead = if block.is_optimistic() { MAX_VIEWS_AHEAD } else { 0 };
        (view.0..=view.0 + ahead).contains(&block.view.0)
    }

    /// Returns whether this replica knows enough to decide on a vote for a block. The block must be complete. If it is
    /// optimistic, its view must have begun, and this replica must be locked on a block of the preceding view or be
    /// able to lock on one when it votes. Until the certified block is complete, the lock lags behind the highest
    /// certificate. A replica with too many unexecuted final blocks decides later.
    pub(super) fn is_decidable(&self, block: &Block, parts: &Parts) -> bool {
        let is_high = || self.lock_against(block, parts).view >= block.justify.view() || bug!(ParentUncertified);
        let is_locked = || block.view <= parts.pacemaker.view() && is_high();
        !parts.store.lags()
            && parts.store.tree.get(&block.digest()).is_some()
            && (!block.is_optimistic() || is_locked())
    }

    /// Handles the certificate of an optimistic proposal's parent if it arrives after the timeouts that began the view:
    /// this replica votes for the proposal or, if it leads, sends the certificate to the others.
    pub(super) fn on_higher_certificate(&mut self, turn: &mut Turn<'_, F::Message>) {
        if F::FACTS.optimistic_proposals && self.high.view().next() == turn.view() {
            self.try_vote(turn);
            self.work(turn);
        }
    }

    /// Returns whether this replica's optimistic proposal for the current view is on the block that it would extend
    /// now. If any replica is known to have timed out of the previous view, it also sends the others that block's
    /// certificate: they may not know it, or they may have timed out and therefore not be locked on it.
    pub(super) fn upholds_proposal(&mut self, turn: &mut Turn<'_, F::Message>) -> bool {
        if self.ahead_on != Some(self.high.subject) && !(bug!(ProposalStays) && self.ahead_on.is_some()) {
            return false;
        }
        let view = turn.view();
        if self.upheld < view {
            self.upheld = view;
            if self.previous_view_timed_out(turn.parts) {
                let advance = ViewMessage::Advance { high: Box::new(self.high.clone()), evidence: None };
                turn.out.send(To::Others, advance.into());
            }
            self.on_shown(&self.high.clone(), turn.parts.me, turn);
        }
        true
    }

    /// Sends the others the certificate that began the current view, halfway through the view. Until then each replica
    /// relies on the votes that it receives, but a faulty replica may have sent its votes to some replicas only.
    /// Without this message, such a replica would time out alone, just when it sends the others its timeout.
    pub(super) fn show_to_others(&self, turn: &mut Turn<'_, F::Message>) {
        if F::FACTS.optimistic_proposals {
            let (high, evidence) = (Box::new(self.high.clone()), self.evidence.clone().map(Box::new));
            turn.out.send(To::Others, ViewMessage::Advance { high, evidence }.into());
        }
    }

    /// Proposes for the next view if this replica leads that view, has voted in the current one, and there is enough to
    /// propose on the block that it voted for.
    pub(super) fn propose_optimistically(&mut self, turn: &mut Turn<'_, F::Message>) {
        if !F::FACTS.optimistic_proposals || turn.parts.store.lags() {
            return;
        }
        let Some(parent) = self.extends_optimistically(turn.parts) else { return };
        // Leader reputation counts the voters that blocks name, and an optimistic block names none.
        if turn.parts.leaders.overlooks(&self.high.signers, &parent, &turn.parts.store.tree) {
            return;
        }
        turn.parts.store.follow(parent.digest());
        let situation = Situation {
            pending: turn.parts.store.pool.pending_commands(),
            pending_bytes: turn.parts.store.pool.pending_bytes(),
            uncommitted: leaves_commands_open::<F>(&parent, turn.parts),
            ready_since: *self.ready_since.get_or_insert(turn.now),
        };
        let room = match self.batching.decide(turn.now, situation) {
            Decision::Propose => self.batching.room(),
            Decision::Confirm => Room::NONE,
            Decision::Wait(time) => return turn.out.arm(Timer::Batch, time),
            Decision::Rest => return,
        };
        let (view, subject) = (parent.view.next(), parent.subject(F::VOTES));
        let time_ms = turn.parts.clock.unix_ms(turn.now);
        self.propose_on(parent.digest(), room, turn, |author, payload| {
            Block::optimistic(view, author, subject, payload, time_ms)
        });
    }

    /// Returns the block that this replica voted for in the current view, if it leads the next one and has not proposed
    /// for it.
    fn extends_optimistically(&self, parts: &Parts) -> Option<Arc<Block>> {
        let view = parts.pacemaker.view();
        let voted = parts.safety.last(F::VOTES).map(|promise| promise.subject).filter(|voted| voted.view == view)?;
        let block = parts.store.tree.get(&voted.digest)?;
        let silent = parts.safety.timed_out().max(parts.safety.abstains()) >= view;
        let may = !silent && parts.safety.may_propose_optimistically(view.next());
        (may && collector::<F>(block, parts) == parts.me).then(|| block.clone())
    }
}

/// Returns whether commands in a block or its ancestors are uncommitted even if the block is certified.
fn leaves_commands_open<F: Family>(block: &Arc<Block>, parts: &Parts) -> bool {
    let tree = &parts.store.tree;
    let committed = F::would_commit(block, tree).map_or(parts.store.committed(), |block| block.height);
    let mut at = Some(block);
    while let Some(open) = at.filter(|block| block.height > committed) {
        if !open.payload.is_empty() {
            return true;
        }
        at = tree.parent(open);
    }
    false
}

/// Returns the parent of the block that this replica proposed optimistically for `view`, if it did and has the block.
pub(super) fn parent_ahead(view: View, parts: &Parts) -> Option<Subject> {
    let proposed = parts.safety.last(Domain::OptimisticProposal).map(|promise| promise.subject);
    let block =
        proposed.filter(|proposed| proposed.view == view).and_then(|proposed| parts.store.tree.get(&proposed.digest));
    block.map(|block| block.justify.subject)
}
