//! A replica's knowledge of each slot in its window.

use super::message::MAX_VOTES_PER_SLOT;
use quorate_types::{Certificate, Digest, Height, Subject, Time};
use std::collections::BTreeMap;

/// Maximum distance, in slots, between this replica's executed slots and the claims of peers that it keeps.
pub(super) const MAX_CLAIMED: u64 = 1024;

/// State of one slot. All fields except `prepared` and `voted` refer to the current view.
#[derive(Clone, Default, Debug)]
pub struct Slot {
    /// Block that the primary assigned, or that the new view carries over.
    pub accepted: Option<Digest>,
    /// Whether the primary's PRE-PREPARE has arrived.
    pub endorsed: bool,
    /// Whether this replica has refused the time of the primary's block.
    pub untimely: bool,
    /// Whether the new view assigns a null request.
    pub null: bool,
    /// Whether the block comes from an earlier view, whose PREPAREs prove that enough replicas hold it.
    pub carried: bool,
    /// Time when this replica first learned of the slot's block.
    pub since: Option<Time>,
    /// Block for which this replica sent PREPARE, or PRE-PREPARE as the primary.
    pub prepare_cast: Option<Digest>,
    /// Block for which this replica sent COMMIT.
    pub commit_cast: Option<Digest>,
    /// Proof from the highest view in which the slot was prepared.
    pub prepared: Option<Certificate>,
    /// Blocks for which this replica vouches, in ascending views: the block carried over by the last NEW-VIEW, for the
    /// view that it names, and the block for which this replica sent PREPARE since. Kept if view changes contain them.
    pub voted: Vec<Subject>,
}

impl Slot {
    /// Records that this replica vouches for a block: it sends PREPARE, or PRE-PREPARE as the primary, or a NEW-VIEW
    /// carries the block over.
    pub fn note_vote(&mut self, subject: Subject) {
        let is_newer = |vote: &Subject| vote.view >= subject.view && vote.digest == subject.digest;
        if self.voted.iter().any(is_newer) {
            return;
        }
        self.voted.retain(|vote| vote.digest != subject.digest);
        let place = self.voted.partition_point(|vote| vote.view < subject.view);
        self.voted.insert(place, subject);
        if self.voted.len() > MAX_VOTES_PER_SLOT {
            self.voted.remove(0);
        }
    }
}

/// Slots above the last stable checkpoint, and unexecuted slots below it.
#[derive(Debug)]
pub struct Log {
    /// Last stable checkpoint, or genesis.
    pub stable: Certificate,
    pub slots: BTreeMap<Height, Slot>,
    /// Slots that are decided but not executed.
    pub decided: BTreeMap<Height, Digest>,
    window: u64,
}

impl Log {
    /// Creates an empty log at genesis.
    pub fn new(genesis: Certificate, window: u64) -> Self {
        Log { stable: genesis, slots: BTreeMap::new(), decided: BTreeMap::new(), window }
    }

    /// Returns the low watermark.
    pub fn low(&self) -> Height {
        self.stable.subject.height
    }

    /// Returns the high watermark.
    pub fn high(&self) -> Height {
        Height(self.low().0.saturating_add(self.window))
    }

    /// Returns a slot, creating it if necessary.
    pub fn slot(&mut self, slot: Height) -> &mut Slot {
        self.slots.entry(slot).or_default()
    }

    /// Returns the last slot up to which all slots above `committed` are decided.
    pub fn decided_up_to(&self, committed: Height) -> Height {
        let in_a_row = self.decided.keys().zip(committed.0 + 1..).take_while(|(slot, next)| slot.0 == *next).count();
        Height(committed.0 + in_a_row as u64)
    }

    /// Returns whether a slot above `committed` has a block that is not executed yet.
    pub fn is_open(&self, committed: Height) -> bool {
        let unfinished = self.slots.range(committed.next()..).any(|(_, slot)| slot.accepted.is_some());
        unfinished || self.decided.range(committed.next()..).next().is_some() || committed < self.low()
    }

    /// Returns the proofs of the blocks prepared above the low watermark, in ascending slots.
    pub fn prepared(&self) -> Vec<Certificate> {
        self.slots.range(self.low().next()..).filter_map(|(_, slot)| slot.prepared.clone()).collect()
    }

    /// Returns this replica's PREPAREs above the low watermark, in ascending slots and views.
    pub fn voted(&self) -> Vec<Subject> {
        self.slots.range(self.low().next()..).flat_map(|(_, slot)| slot.voted.iter().copied()).collect()
    }

    /// Returns the proof that exactly this subject was prepared, if present.
    pub fn proof(&self, subject: &Subject) -> Option<&Certificate> {
        let proof = self.slots.get(&subject.height)?.prepared.as_ref()?;
        (proof.subject == *subject).then_some(proof)
    }

    /// Removes the slots that are both stable and executed, and returns the last such slot.
    pub fn truncate(&mut self, committed: Height) -> Height {
        let floor = if bug!(UnstableForgotten) { committed } else { self.low().min(committed) };
        self.slots = self.slots.split_off(&floor.next());
        floor
    }
}
