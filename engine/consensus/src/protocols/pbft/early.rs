//! PRE-PREPAREs that arrive before their view's NEW-VIEW.
//!
//! Each primary has its own quota, so a faulty one cannot crowd out the others, and one entry per view and slot.

use super::message::PrePrepare;
use quorate_types::{Digest, Height, ReplicaId, View, Vote};
use std::collections::BTreeMap;

/// Maximum number of waiting PRE-PREPAREs per primary; an honest one has `pipeline` slots in flight.
pub const MAX_EARLY_PER_PRIMARY: usize = 64;
/// Maximum size of a primary's waiting PRE-PREPAREs, in blocks of `batch_bytes`.
pub const MAX_EARLY_FULL_BLOCKS: usize = 4;

/// Result of storing an early PRE-PREPARE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// It is stored until its view begins.
    Waits,
    /// The same one is already stored.
    Repeated,
    /// The primary assigned the slot to another block in the same view; this is its signed statement.
    Contradicts(Box<Vote>),
    /// The primary's quota is exhausted.
    Full,
}

/// Early PRE-PREPAREs of all primaries.
#[derive(Default)]
pub(super) struct Early {
    /// By view and slot, each with its size in memory in bytes.
    waiting: BTreeMap<(View, Height), (Box<PrePrepare>, usize)>,
}

impl Early {
    /// Stores a PRE-PREPARE whose view is not open yet, within its primary's quota. `current` is this replica's view,
    /// `batch_bytes` the configured block size.
    pub fn keep(&mut self, message: Box<PrePrepare>, current: View, batch_bytes: usize) -> Kept {
        let bytes = size(&message);
        // Views that this replica has left will never open here.
        self.waiting = self.waiting.split_off(&(current, Height(0)));
        let slot = if bug!(EarlyKept) { Height(u64::MAX - self.waiting.len() as u64) } else { message.block.height };
        let place = (message.view(), slot);
        if let Some((known, _)) = self.waiting.get(&place) {
            return match known.endorsement.subject == message.endorsement.subject {
                true => Kept::Repeated,
                false => Kept::Contradicts(Box::new(known.endorsement.clone())),
            };
        }
        let max_bytes = batch_bytes.saturating_mul(MAX_EARLY_FULL_BLOCKS);
        let (count, held) = self.share(Some(message.block.author));
        if !bug!(EarlyKept) && (count >= MAX_EARLY_PER_PRIMARY || (count > 0 && held + bytes > max_bytes)) {
            return Kept::Full;
        }
        self.waiting.insert(place, (message, bytes));
        Kept::Waits
    }

    /// Returns the number of stored PRE-PREPAREs, of one primary or of all, and their size in bytes.
    pub fn share(&self, primary: Option<ReplicaId>) -> (usize, usize) {
        let own =
            self.waiting.values().filter(|(message, _)| primary.is_none_or(|primary| message.block.author == primary));
        own.fold((0, 0), |(count, held), (_, bytes)| (count + 1, held + bytes))
    }

    /// Removes and returns all stored PRE-PREPAREs, in order of view and slot, when a view opens. The caller stores
    /// those of later views again.
    pub fn take(&mut self) -> impl Iterator<Item = Box<PrePrepare>> + use<> {
        std::mem::take(&mut self.waiting).into_values().map(|(message, _)| message)
    }
}

/// Returns the size of a PRE-PREPARE in memory: its bundles, and their digests and certificates in the block.
fn size(message: &PrePrepare) -> usize {
    let bundles: usize = message.bundles.iter().map(|bundle| bundle.body().len()).sum();
    bundles + message.block.payload.len() * size_of::<Digest>() + message.block.covers().wire_bytes()
}
