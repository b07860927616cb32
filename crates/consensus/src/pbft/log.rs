//! What a replica knows of each slot of its window.

use quorate_types::{Certificate, Digest, Height, Subject, Time};
use std::collections::BTreeMap;

/// One slot. All but `prepared` is about the current view.
#[derive(Clone, Default, Debug)]
pub struct Slot {
    /// The block that the primary gave it, or that the new view carries over.
    pub accepted: Option<Digest>,
    /// Whether the PRE-PREPARE came.
    pub endorsed: bool,
    /// Whether it is a null request of the new view.
    pub null: bool,
    /// Whether the block was taken over from an earlier view, whose PREPAREs prove that enough replicas hold it.
    pub carried: bool,
    /// Since when it is in the works.
    pub since: Option<Time>,
    /// Of what PREPARE was said, by the primary with its PRE-PREPARE.
    pub prepare_cast: Option<Digest>,
    /// Of what COMMIT was said.
    pub commit_cast: Option<Digest>,
    /// A quorum said COMMIT of this.
    pub agreed: Option<Subject>,
    /// The proof of the highest view in which it was prepared.
    pub prepared: Option<Certificate>,
}

/// The slots above the last stable checkpoint, and those below that are not executed yet.
#[derive(Debug)]
pub struct Log {
    /// The last stable checkpoint, or genesis.
    pub stable: Certificate,
    /// The slots that something is known of.
    pub slots: BTreeMap<Height, Slot>,
    /// Slots that are decided and not executed.
    pub decided: BTreeMap<Height, Digest>,
    window: u64,
}

impl Log {
    /// Nothing but genesis.
    pub fn new(genesis: Certificate, window: u64) -> Self {
        Log { stable: genesis, slots: BTreeMap::new(), decided: BTreeMap::new(), window }
    }

    /// The low watermark.
    pub fn low(&self) -> Height {
        self.stable.subject.height
    }

    /// The high watermark.
    pub fn high(&self) -> Height {
        Height(self.low().0.saturating_add(self.window))
    }

    /// A slot, begun if need be.
    pub fn slot(&mut self, slot: Height) -> &mut Slot {
        self.slots.entry(slot).or_default()
    }

    /// Whether a slot above `committed` has a block that the current view has not brought to its end.
    pub fn is_open(&self, committed: Height) -> bool {
        let unfinished = self.slots.range(committed.next()..).any(|(_, slot)| slot.accepted.is_some());
        unfinished || !self.decided.is_empty() || committed < self.low()
    }

    /// What is prepared above the low watermark, in ascending slots.
    pub fn prepared(&self) -> Vec<Certificate> {
        self.slots.range(self.low().next()..).filter_map(|(_, slot)| slot.prepared.clone()).collect()
    }

    /// The proof that exactly this was prepared, if it is here.
    pub fn proof(&self, subject: &Subject) -> Option<&Certificate> {
        let proof = self.slots.get(&subject.height)?.prepared.as_ref()?;
        (proof.subject == *subject).then_some(proof)
    }

    /// Forgets the slots that are stable and executed; returns up to where.
    pub fn truncate(&mut self, committed: Height) -> Height {
        let floor = self.low().min(committed);
        self.slots = self.slots.split_off(&floor.next());
        floor
    }
}
