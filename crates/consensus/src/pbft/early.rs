//! PRE-PREPAREs that overtook the NEW-VIEW that is to precede them.
//!
//! Each primary has a share of its own, so that a faulty one crowds out nobody else's, and one place for each view and slot.

use super::message::PrePrepare;
use quorate_types::{Digest, Height, ReplicaId, View, Vote};
use std::collections::BTreeMap;

/// Most PRE-PREPAREs of one primary that wait; an honest one has `pipeline` slots in flight.
pub const MAX_EARLY_PER_PRIMARY: usize = 64;
/// Most bytes of one primary's that wait, in blocks of `batch_bytes`.
pub const MAX_EARLY_FULL_BLOCKS: usize = 4;

/// What became of an early PRE-PREPARE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// It waits.
    Waits,
    /// The same one waits already.
    Repeated,
    /// The primary gave the slot to another block in the same view, by this statement.
    Contradicts(Box<Vote>),
    /// The primary has used up its share.
    Full,
}

/// The early PRE-PREPAREs of all primaries.
#[derive(Default)]
pub(super) struct Early {
    /// By view and slot, each with what it takes in memory, in bytes.
    waiting: BTreeMap<(View, Height), (Box<PrePrepare>, usize)>,
}

impl Early {
    /// Keeps a PRE-PREPARE of a view that is not open in `current`, if its primary has room for it: `batch_bytes` is the configured one.
    pub fn keep(&mut self, message: Box<PrePrepare>, current: View, batch_bytes: usize) -> Kept {
        let bytes = size(&message);
        // Views that this replica has left will not be opened here any more.
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

    /// How many PRE-PREPAREs wait, of one primary or of all, and how many bytes they take.
    pub fn share(&self, primary: Option<ReplicaId>) -> (usize, usize) {
        let own =
            self.waiting.values().filter(|(message, _)| primary.is_none_or(|primary| message.block.author == primary));
        own.fold((0, 0), |(count, held), (_, bytes)| (count + 1, held + bytes))
    }

    /// All that wait, in ascending views and slots: a view was opened. Those of later views are to be kept again.
    pub fn take(&mut self) -> impl Iterator<Item = Box<PrePrepare>> + use<> {
        std::mem::take(&mut self.waiting).into_values().map(|(message, _)| message)
    }
}

/// What a PRE-PREPARE takes in memory: its bundles, and their names in the block.
fn size(message: &PrePrepare) -> usize {
    let bundles: usize = message.bundles.iter().map(|bundle| bundle.body().len()).sum();
    bundles + message.block.payload.len() * size_of::<Digest>()
}
