//! Selection of the blocks that a new view proposes again: a pure function of its view changes, which every replica
//! computes (Castro and Liskov, OSDI 1999, section 4.4).

use super::message::Declaration;
use quorate_types::{Height, Subject};
use std::collections::BTreeMap;

/// Blocks that a new view proposes again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// Checkpoint below the first slot: min-s, the highest in *any* of the view changes, since one proof is enough.
    pub stable: Subject,
    /// Slots above the checkpoint in order, up to max-s, the highest prepared in any view change. Each contains the
    /// block prepared in the highest view, or `None` for a null request.
    pub slots: Vec<Option<Subject>>,
}

impl Selection {
    /// Computes the selection from these view changes, whose claims are proven. `None` if two of them claim different
    /// prepared blocks for one slot and view: then one of them is lying and has no place in a new view.
    pub fn of(changes: &[Declaration]) -> Option<Selection> {
        let stable = changes.iter().map(|change| change.checkpoint).max_by_key(|checkpoint| checkpoint.height)?;
        let mut highest: BTreeMap<Height, Subject> = BTreeMap::new();
        let claims = changes.iter().flat_map(|change| &change.prepared);
        for subject in claims.filter(|subject| subject.height > stable.height) {
            let chosen = highest.entry(subject.height).or_insert(*subject);
            if chosen.view == subject.view && chosen.digest != subject.digest {
                return None;
            }
            if subject.view > chosen.view {
                *chosen = *subject;
            }
        }
        let slots = match highest.last_key_value() {
            Some((last, _)) => (stable.height.0 + 1..=last.0).map(|slot| highest.get(&Height(slot)).copied()).collect(),
            None => Vec::new(),
        };
        Some(Selection { stable, slots })
    }

    /// Returns the slots with their selected blocks.
    pub fn iter(&self) -> impl Iterator<Item = (Height, Option<&Subject>)> {
        (self.stable.height.0 + 1..).map(Height).zip(self.slots.iter().map(Option::as_ref))
    }

    /// Returns the block carried over for a slot.
    pub fn at(&self, slot: Height) -> Option<&Subject> {
        let place = slot.0.checked_sub(self.stable.height.0 + 1)?;
        self.slots.get(usize::try_from(place).ok()?)?.as_ref()
    }

    /// Returns the highest slot, or the checkpoint's if nothing is prepared above it.
    pub fn last(&self) -> Height {
        Height(self.stable.height.0 + self.slots.len() as u64)
    }
}
