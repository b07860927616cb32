//! The blocks that a PBFT view change must carry over, derived from the statements that the NEW-VIEW names.

use crate::property::{Property, Violation};
use crate::tallies::Tallies;
use quorate_consensus::protocols::pbft::message::NewView;
use quorate_types::{Digest, Height, ReplicaId, Subject, View};
use std::collections::{BTreeMap, BTreeSet};

/// Number of new views that are remembered.
const MAX_REMEMBERED: usize = 64;

/// Blocks that new views carry over, by view and slot.
#[derive(Default)]
pub struct Carried {
    views: BTreeMap<View, BTreeMap<Height, Digest>>,
}

impl Carried {
    pub fn clear(&mut self) {
        self.views.clear();
    }

    /// Checks an honest primary's NEW-VIEW: it must carry over the latest prepared block of each slot.
    pub fn on_new_view(&mut self, primary: ReplicaId, new_view: &NewView, tallies: &Tallies) -> Result<(), Violation> {
        let view = new_view.view();
        let voters: BTreeSet<ReplicaId> = new_view.voters().collect();
        let breach = |property: Property, what: String| {
            Err(Violation { property, what: format!("replica {primary} opens view {view}: {what}") })
        };
        if voters.len() < tallies.quorum() {
            return breach(Property::Backing, format!("only {} replicas asked for it", voters.len()));
        }
        let stable = new_view.changes.iter().map(|change| change.checkpoint.height).max().unwrap_or_default();
        let mut highest: BTreeMap<Height, Subject> = BTreeMap::new();
        for told in new_view.changes.iter().flat_map(|change| &change.prepared).filter(|told| told.height > stable) {
            let best = highest.entry(told.height).or_insert(*told);
            if told.view > best.view {
                *best = *told;
            }
        }
        let shown: BTreeMap<Height, Subject> =
            new_view.prepared.iter().map(|proof| (proof.subject.height, proof.subject)).collect();
        for (slot, best) in &highest {
            let of = shown.get(slot).map(|subject| subject.view);
            if of != Some(best.view) {
                let what = format!("slot {slot} was prepared in view {}, but it carries over {of:?}", best.view);
                return breach(Property::Order, what);
            }
        }
        if self.views.len() == MAX_REMEMBERED {
            self.views.pop_first();
        }
        let slots = highest.into_iter().map(|(slot, subject)| (slot, subject.digest)).collect();
        self.views.insert(view, slots);
        Ok(())
    }

    /// Returns the block that a view carries over for a slot.
    pub fn block(&self, view: View, slot: Height) -> Option<Digest> {
        self.views.get(&view)?.get(&slot).copied()
    }
}
