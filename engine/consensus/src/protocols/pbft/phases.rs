//! The three phases alone (`phases_only`), as the paper on the loss model counts them: Loruenser, Rainer and Wohner,
//! "Towards a performance model for Byzantine fault tolerant (storage) services", section II.B.
//!
//! A slot is decided by the messages that arrive, or it fails; nothing is sent again. This is the code of the whole
//! protocol, with these differences:
//!
//! - Slots are independent. A replica that decides a slot executes it at once. It gives up the undecided slots before
//!   it and puts null blocks in their places, so that heights have no gaps. A primary whose pipeline is full gives up
//!   its oldest undecided slot once that is `view_timeout_ms` old.
//! - The commands of a slot that is given up are forgotten, not proposed again.
//! - A replica without the PRE-PREPARE takes no part in a slot, even if it sees that the others prepare it.
//!
//! Replicas execute different commands in the end, so there are no checkpoints. One thing differs from the paper, as in
//! the whole protocol: the primary's PRE-PREPARE is its PREPARE, so a backup has both or neither.

use super::engine::Engine;
use super::message::Turn;
use super::showing::Showing;
use crate::config::MAX_WINDOW;
use crate::protocols::parts::Parts;
use crate::seam::Timer;
use quorate_types::{Block, Digest, Height};
use std::sync::Arc;

impl<S: Showing> Engine<S> {
    /// Makes room in a full pipeline by giving up the oldest undecided slot, if its time is over. Otherwise, sets the
    /// timer to that time and returns false.
    pub(super) fn make_room(&mut self, turn: &mut Turn<'_>) -> bool {
        let oldest = turn.committed().next();
        let timeout = turn.parts.config.view_timeout();
        let since = self.log.slots.get(&oldest).and_then(|slot| slot.since);
        let left = timeout.saturating_sub(since.map_or(timeout, |since| turn.now.since(since)));
        if left.is_zero() {
            self.give_up_before(oldest.next(), turn);
            return true;
        }
        turn.out.arm(Timer::View, left);
        false
    }

    /// Gives up all undecided slots before this one.
    pub(super) fn give_up_before(&mut self, slot: Height, turn: &mut Turn<'_>) {
        while turn.committed().next() < slot {
            let failed = turn.committed().next();
            let assigned = self.log.slots.get(&failed).and_then(|entry| entry.accepted);
            let block = assigned.and_then(|digest| turn.parts.store.tree.get(&digest)).cloned();
            let primary = self.primary(turn.view(), turn.parts);
            let null = Arc::new(Block::of_slot(turn.view(), primary, failed, Vec::new()));
            let digest = null.digest();
            turn.offer(null, turn.parts.me);
            assert!(turn.commit(&digest), "a null block can follow any block");
            let forgotten: Vec<Digest> = block.map(|block| block.payload.clone()).unwrap_or_default();
            forgotten.iter().for_each(|bundle| turn.parts.store.pool.forget(bundle));
        }
        if turn.committed() > self.log.low() {
            self.pass(turn);
        }
    }

    /// Returns whether a slot beyond the window is near enough for a replica that has lost all messages of the slots
    /// before it.
    pub(super) fn is_in_sight(&self, slot: Height, parts: &Parts) -> bool {
        parts.config.phases_only && slot.0 <= self.log.low().0 + MAX_WINDOW as u64
    }

    /// Gives up slots that the primary is done with, because it assigns this one: those that lie a pipeline behind it,
    /// and another pipeline for messages that are still on their way.
    pub(super) fn keep_in_sight(&mut self, slot: Height, turn: &mut Turn<'_>) {
        let config = &turn.parts.config;
        if config.phases_only && self.active {
            let behind = (2 * config.pipeline).min(config.window - 1);
            self.give_up_before(Height(slot.0.saturating_sub(behind)), turn);
        }
    }

    /// Forgets the slots up to the last executed one.
    pub(super) fn pass(&mut self, turn: &mut Turn<'_>) {
        let committed = turn.committed();
        self.log.pass(committed);
        self.next = self.next.max(committed.next());
        self.truncate(turn);
    }

    /// Handles the quorum of PREPAREs that arrived before the PRE-PREPARE of its slot, if it did.
    pub(super) fn take_early_quorum(&mut self, slot: Height, turn: &mut Turn<'_>) {
        let entry = self.log.slots.get_mut(&slot);
        if let Some(certificate) = entry.and_then(|entry| entry.certified_early.take()) {
            self.on_prepared(certificate, turn);
        }
    }
}
