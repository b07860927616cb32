//! The times of blocks, which backups judge before they send PREPARE.

use super::engine::Engine;
use super::message::Turn;
use super::view_change_evidence::ViewChangeEvidence;
use quorate_types::{Digest, Height};

impl<S: ViewChangeEvidence> Engine<S> {
    /// Returns whether this replica has refused the time of the block that the primary proposes for a slot.
    pub(super) fn refused_time_of(&self, slot: Height, digest: Digest) -> bool {
        self.log.slots.get(&slot).is_some_and(|entry| entry.untimely && entry.accepted == Some(digest))
    }

    /// Judges the time of the block that the primary of the current view has proposed for a slot, once its commands are
    /// here. Honest replicas have judged the blocks that a view change carries over, and those that are committed.
    pub(super) fn is_timely(&mut self, slot: Height, turn: &mut Turn<'_>) -> bool {
        let Some(entry) = self.log.slots.get_mut(&slot) else { return true };
        let is_fresh = self.active && entry.endorsed && !entry.carried && entry.prepare_cast.is_none();
        let fresh = entry.accepted.filter(|_| is_fresh && slot > turn.committed());
        let Some(block) = fresh.and_then(|digest| turn.parts.store.tree.get(&digest).cloned()) else { return true };
        let judged = turn.judge_time(&block);
        let was_untimely = std::mem::replace(&mut entry.untimely, judged.is_err());
        if let Some(why) = judged.err().filter(|_| !was_untimely) {
            turn.out.drop_message(block.author, why);
        }
        !entry.untimely
    }
}
