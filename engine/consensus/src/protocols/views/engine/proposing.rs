//! Proposals: when a leader proposes, the size of its block, and the bundles and evidence sent with it.

use super::Views;
use crate::data::batching::{Decision, Room, Situation};
use crate::protocols::parts::Parts;
use crate::protocols::turn::Turn;
use crate::protocols::views::message::{Proposal, ViewMessage};
use crate::protocols::views::{Family, begins};
use crate::seam::{Mark, Timer, To};
use quorate_types::{Block, Digest, Domain, ReplicaId, View, Vote};
use std::sync::Arc;

impl<F: Family> Views<F> {
    /// Proposes if this replica leads the view, has not proposed in it, and there is enough to propose.
    pub(super) fn work(&mut self, turn: &mut Turn<'_, F::Message>) {
        self.watch(turn);
        self.propose_optimistically(turn);
        let view = turn.parts.pacemaker.view();
        let proposed = turn.parts.safety.proposed() >= view && !self.proposes_twice(turn.parts);
        let silent = turn.parts.safety.timed_out().max(turn.parts.safety.abstains()) >= view;
        if proposed
            || silent
            || turn.parts.store.lags()
            || self.leader(turn.parts) != Some(turn.parts.me)
            || self.upholds_proposal(turn)
        {
            return;
        }
        if let Some(left) = self.awaits_higher(turn.now, turn.parts) {
            return turn.out.arm(Timer::Batch, left);
        }
        let situation = Situation {
            pending: turn.parts.store.pool.pending_commands(),
            pending_bytes: turn.parts.store.pool.pending_bytes(),
            uncommitted: turn.parts.store.tree.open_payloads() > 0 || self.urged,
            ready_since: *self.ready_since.get_or_insert(turn.now),
        };
        match self.batching.decide(turn.now, situation) {
            Decision::Propose => self.propose(self.batching.room(), turn),
            Decision::Confirm => self.propose(Room::NONE, turn),
            Decision::Wait(time) => {
                turn.out.arm(Timer::Batch, time);
                self.announce(turn);
            }
            Decision::Rest => {
                self.ready_since = None;
                self.announce(turn);
            }
        }
    }

    /// Returns whether the injected bug `ProposesTwice` lets a leader propose again, because the votes of the previous
    /// view arrived after its timeouts.
    fn proposes_twice(&self, parts: &Parts) -> bool {
        let by_timeouts = self.evidence.as_ref().is_some_and(|evidence| evidence.subject.domain == Domain::Timeout);
        bug!(ProposesTwice) && by_timeouts && self.high.view().next() == parts.pacemaker.view()
    }

    fn propose(&mut self, room: Room, turn: &mut Turn<'_, F::Message>) {
        let view = turn.parts.pacemaker.view();
        let justify = F::extends(&self.high, self.evidence.as_ref()).clone();
        // Nothing can be proposed on a block below the committed height, or on a block that this replica does not have
        // yet.
        let behind = justify.subject.height < turn.parts.store.committed() || justify.view() >= view;
        if behind || !turn.parts.store.tree.contains(&justify.subject.digest) {
            return;
        }
        let time_ms = turn.parts.clock.unix_ms(turn.now);
        self.propose_on(justify.subject.digest, room, turn, |author, payload| {
            Block::new(view, author, justify, payload, time_ms)
        });
    }

    /// Proposes the block that `make` creates from its author and its commands, on a parent in the tree.
    pub(super) fn propose_on(
        &mut self,
        parent: Digest,
        room: Room,
        turn: &mut Turn<'_, F::Message>,
        make: impl FnOnce(ReplicaId, Vec<Digest>) -> Block,
    ) {
        turn.parts.store.follow(parent);
        let before = turn.parts.store.pool.pending_commands();
        let payload = turn.parts.store.pool.select(room);
        turn.parts.alone.on_proposal(turn.now, &payload, &turn.parts.store.pool);
        let block = Arc::new(turn.parts.store.name_covers(make(turn.parts.me, payload)));
        let view = block.view;
        let ballot = match block.is_optimistic() {
            true => turn.parts.safety.propose_optimistically(&block),
            false => turn.parts.safety.propose(&block),
        };
        let ballot = ballot.expect("a leader makes one proposal of each kind per view");
        self.unannounced = false;
        if !block.payload.is_empty()
            && let Some(time) = self.batching.on_block(turn.now)
        {
            turn.out.arm(Timer::Batch, time);
        }
        turn.offer(block.clone(), turn.parts.me);
        // After a restart the block may be stored already: the journal can hold the block without the record of its
        // proposal.
        turn.parts.store.follow(block.digest());
        let pending = turn.parts.store.pool.pending_commands();
        self.keep(Some(&block.digest()), turn);
        turn.out.mark(Mark::Proposed { view, height: block.height, commands: before - pending });
        turn.show_covers(To::Others, &block);
        let proposal = self.proposal(block, ballot.to_vote(turn.parts.me), turn.parts);
        self.batching.on_proposal(turn.now, view.0, &proposal.bundles, pending);
        turn.cast_proposal(&ballot, |endorsement| {
            ViewMessage::Proposal(Arc::new(Proposal { endorsement, ..proposal })).into()
        });
    }

    /// Builds the proposal of this replica's block for the current view, with the bundles that travel with it and,
    /// unless the block itself shows it, the evidence that the view has begun.
    pub(super) fn proposal(&self, block: Arc<Block>, endorsement: Vote, parts: &Parts) -> Proposal {
        let evidence = match block.is_optimistic() {
            true => (self.high.view() > View(0)).then(|| self.high.clone()),
            false => self.evidence.clone().filter(|_| !begins::<F>(block.view, &block.justify, None)),
        };
        let bundles = parts.carried_bundles(&block);
        Proposal { block, evidence, endorsement, bundles }
    }
}
