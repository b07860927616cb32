//! Optimistic proposals: of the leader of the next view, on the block that it has just voted for in this one.
//!
//! Such a proposal stands if its parent is certified in the view before. Otherwise the leader proposes again once the
//! view has begun: the two proposals are statements of different kinds, and no contradiction.

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

/// Maximum number of views by which an optimistic proposal may be ahead of the view that its recipient is in, once it
/// has learnt the certificate shown with it: one, and one more because the leader may have learnt of a timeout earlier.
pub(super) const MAX_VIEWS_AHEAD: u64 = 2;

impl<F: Family> Views<F> {
    /// Screens an optimistic proposal. Its parent is not certified, so nothing proves that its view is about to begin.
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
        // Votes have nearly always shown this replica that certificate before; then it is not verified again.
        let news = high.filter(|high| high.view() > self.high.view());
        let reached = news.map_or(View(0), |high| high.view().next()).max(parts.pacemaker.view());
        if block.view.0 > reached.0 + MAX_VIEWS_AHEAD {
            return Admission::Drop(Drop::TooFarAhead);
        }
        Admission::Check(news.cloned().into_iter().collect())
    }

    /// Returns whether a block may be voted for in `view`, or in one of the next if it is optimistic.
    pub(super) fn is_candidate(&self, block: &Block, view: View) -> bool {
        let ahead = if block.is_optimistic() { MAX_VIEWS_AHEAD } else { 0 };
        (view.0..=view.0 + ahead).contains(&block.view.0)
    }

    /// Returns whether enough is known to decide on a vote for a block: it is complete, and if it is optimistic, its
    /// view has begun and this replica is locked on a block of the view before, or may lock on one as it votes. Until
    /// the certified block is complete, the lock lags behind the highest certificate. A replica with too many unexecuted
    /// final blocks decides later.
    pub(super) fn is_decidable(&self, block: &Block, parts: &Parts) -> bool {
        let is_high = || self.lock_against(block, parts).view >= block.justify.view() || bug!(ParentUncertified);
        let is_locked = || block.view <= parts.pacemaker.view() && is_high();
        !parts.store.lags()
            && parts.store.tree.get(&block.digest()).is_some()
            && (!block.is_optimistic() || is_locked())
    }

    /// Votes for an optimistic proposal whose parent's certificate arrived after the timeouts that began the view, or
    /// shows the others that certificate if this replica leads.
    pub(super) fn on_higher_certificate(&mut self, turn: &mut Turn<'_, F::Message>) {
        if F::FACTS.optimistic_proposals && self.high.view().next() == turn.view() {
            self.try_vote(turn);
            self.work(turn);
        }
    }

    /// Returns whether this replica's optimistic proposal for the current view is on the block that it would extend
    /// now. If any replica is known to have timed out of the previous view, shows the others the certificate of that
    /// block: they may not know it or, because they timed out, not be locked on it.
    pub(super) fn upholds_proposal(&mut self, turn: &mut Turn<'_, F::Message>) -> bool {
        if self.ahead_on != Some(self.high.subject) {
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

    /// Shows the others how the current view began, halfway through it. Until then each replica relies on the votes
    /// that it receives, and those of a faulty replica may have reached only some: this one would time out alone, just
    /// when the others are told.
    pub(super) fn show_to_others(&self, turn: &mut Turn<'_, F::Message>) {
        if F::FACTS.optimistic_proposals {
            let (high, evidence) = (Box::new(self.high.clone()), self.evidence.clone().map(Box::new));
            turn.out.send(To::Others, ViewMessage::Advance { high, evidence }.into());
        }
    }

    /// Proposes for the next view if this replica leads it, has voted in the current one, and there is enough to
    /// propose on the block that it voted for.
    pub(super) fn propose_optimistically(&mut self, turn: &mut Turn<'_, F::Message>) {
        if !F::FACTS.optimistic_proposals || turn.parts.store.lags() {
            return;
        }
        let Some(parent) = self.extends_optimistically(turn.parts) else { return };
        // Reputation counts the voters that blocks name, and an optimistic block names none.
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
        self.propose_on(parent.digest(), room, turn, |author, payload| {
            Block::optimistic(view, author, subject, payload)
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
