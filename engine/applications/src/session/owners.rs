//! The owners of sessions.

use super::NOBODY;
use std::collections::{BTreeSet, HashMap};

/// Maximum units of an owner before it is *heavy*, and loses sessions before all others: the size of 16 sessions, or of
/// one with thousands of commands out of order.
pub const FAIR_UNITS: usize = 16;

/// Sessions of one owner.
#[derive(Clone)]
pub(super) struct Owner {
    id: u128,
    /// The largest bound of its evicted sessions, while it has other sessions.
    pub watermark: u64,
    /// Units used by its sessions.
    units: u32,
    /// Slots of its most and least recently used sessions.
    pub newest: u32,
    pub oldest: u32,
}

/// All owners of sessions. The hash has random keys per process, because clients choose their ids; nothing depends on
/// the table's order.
pub(super) struct Owners {
    slots: Vec<Owner>,
    free: Vec<u32>,
    by_id: HashMap<u128, u32>,
    /// By units, then by id.
    heavy: BTreeSet<(u32, u128)>,
}

impl Owners {
    pub fn new() -> Owners {
        Owners { slots: Vec::new(), free: Vec::new(), by_id: HashMap::new(), heavy: BTreeSet::new() }
    }

    pub fn find(&self, id: u128) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub fn get(&self, at: u32) -> &Owner {
        &self.slots[at as usize]
    }

    pub fn get_mut(&mut self, at: u32) -> &mut Owner {
        &mut self.slots[at as usize]
    }

    /// Adds an owner without sessions; the caller adds its first one.
    pub fn insert(&mut self, id: u128) -> u32 {
        let owner = Owner { id, watermark: 0, units: 0, newest: NOBODY, oldest: NOBODY };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = owner;
                at
            }
            None => {
                self.slots.push(owner);
                self.slots.len() as u32 - 1
            }
        };
        self.by_id.insert(id, at);
        at
    }

    /// Adjusts the units of the owner's sessions.
    pub fn adjust_units(&mut self, at: u32, more: u32, less: u32) {
        let Owner { id, units, .. } = &mut self.slots[at as usize];
        let before = std::mem::replace(units, *units + more - less);
        if before as usize > FAIR_UNITS {
            self.heavy.remove(&(before, *id));
        }
        if *units as usize > FAIR_UNITS {
            self.heavy.insert((*units, *id));
        }
    }

    /// Removes an owner if it has no session. Returns its watermark.
    pub fn remove_if_empty(&mut self, at: u32) -> Option<u64> {
        let Owner { id, watermark, units: 0, .. } = self.slots[at as usize] else { return None };
        self.by_id.remove(&id);
        self.free.push(at);
        Some(watermark)
    }

    /// Returns the least recently used session of each heavy owner, the heaviest owner first.
    pub fn eviction_candidates(&self) -> impl Iterator<Item = u32> {
        self.heavy.iter().rev().map(|(_, id)| self.get(self.by_id[id]).oldest)
    }

    /// Returns every watermark above 0 with its owner, ascending.
    pub fn watermarks(&self) -> Vec<(u128, u64)> {
        let present = self.slots.iter().filter(|owner| owner.units > 0 && owner.watermark > 0);
        let mut watermarks: Vec<_> = present.map(|owner| (owner.id, owner.watermark)).collect();
        watermarks.sort_unstable();
        watermarks
    }
}
