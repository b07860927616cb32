//! The primary: assigns blocks of pending bundles to the slots of the window.

use super::engine::Engine;
use super::message::{PbftMessage, PrePrepare, Turn};
use super::view_change_evidence::ViewChangeEvidence;
use crate::data::batching::{Batching, Decision, Situation};
use crate::seam::{Mark, Timer, To};
use quorate_types::{Block, Height, Subject};
use std::sync::Arc;

impl<S: ViewChangeEvidence> Engine<S> {
    /// Assigns blocks to slots, if this replica is the primary, the pipeline and the window have space, and there is
    /// enough to propose.
    pub(super) fn work(&mut self, turn: &mut Turn<'_>) {
        self.watch(turn);
        let speaks = self.active && turn.parts.safety.abstains() < turn.view();
        if !speaks || self.primary(turn.view(), turn.parts) != turn.parts.me {
            return;
        }
        let decided = self.log.decided.last_key_value().map_or(turn.committed(), |(slot, _)| *slot);
        self.next = self.next.max(decided.next());
        self.skip_given();
        while self.next <= self.log.high() {
            if self.next.0 - turn.committed().0 > turn.parts.config.pipeline {
                return;
            }
            let situation = Situation {
                pending: turn.parts.store.pool.pending_commands(),
                pending_bytes: turn.parts.store.pool.pending_bytes(),
                uncommitted: false,
                ready_since: *self.ready_since.get_or_insert(turn.now),
            };
            match self.batching.decide(turn.now, situation) {
                Decision::Propose | Decision::Confirm => self.propose(turn),
                Decision::Wait(time) => return turn.out.arm(Timer::Batch, time),
                Decision::Rest => {
                    self.ready_since = None;
                    return;
                }
            }
        }
    }

    /// Skips slots with a PREPARE of this replica in this view: they are already assigned, by this replica or by
    /// somebody else who has its key.
    fn skip_given(&mut self) {
        while self.log.slots.get(&self.next).is_some_and(|slot| slot.prepare_cast.is_some()) {
            self.next = self.next.next();
        }
    }

    fn propose(&mut self, turn: &mut Turn<'_>) {
        let slot = self.next;
        let vote = assign(slot, &mut self.batching, turn);
        let entry = self.log.slot(slot);
        (entry.accepted, entry.prepare_cast, entry.since) = (Some(vote.digest), Some(vote.digest), Some(turn.now));
        if S::SHOWS_VOTES {
            entry.note_vote(vote);
        }
        self.skip_given();
        self.ready_since = None;
        self.watch(turn);
    }
}

/// Assigns a block of pending bundles to a slot of the current view. Returns the subject of this replica's vote for it.
pub(super) fn assign(slot: Height, batching: &mut Batching, turn: &mut Turn<'_>) -> Subject {
    let (view, me) = (turn.view(), turn.parts.me);
    let pool = &mut turn.parts.store.pool;
    let before = pool.pending_commands();
    let (room, time_ms) = (batching.room(), turn.parts.clock.unix_ms(turn.now));
    let payload = pool.select(room);
    turn.parts.alone.on_proposal(turn.now, &payload, &turn.parts.store.pool);
    let block = Arc::new(turn.parts.store.name_covers(Block::of_slot(view, me, slot, payload, time_ms)));
    if let Some(time) = batching.on_block(turn.now) {
        turn.out.arm(Timer::Batch, time);
    }
    let bundles = turn.parts.carried_bundles(&block);
    let ballot = turn.parts.safety.prepare(view, slot, block.digest()).expect("a primary assigns each slot once");
    turn.offer(block.clone(), me);
    // After a restart the block may already be in the tree: the journal may contain it without the record of its
    // proposal.
    turn.parts.store.take_up(&block.digest());
    let pending = turn.parts.store.pool.pending_commands();
    batching.on_proposal(turn.now, slot.0, &bundles, pending);
    turn.out.mark(Mark::Proposed { view, height: slot, commands: before - pending });
    turn.show_covers(To::Others, &block);
    turn.cast(&ballot, To::All, |endorsement| {
        PbftMessage::PrePrepare(Box::new(PrePrepare { endorsement, block, bundles }))
    });
    ballot.subject()
}
