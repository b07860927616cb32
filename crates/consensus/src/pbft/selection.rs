//! What a new view proposes again: a pure function of the view changes it is opened with, which every replica computes for itself
//! (Castro and Liskov, OSDI 1999, section 4.4).

use super::message::{Declaration, NewView};
use quorate_types::{Attachment, Domain, Height, Quorum, Subject};
use std::collections::BTreeMap;

/// What is proposed again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The slots begin above this checkpoint: min-s, the highest in *any* of the view changes, since one proof is enough.
    pub stable: Subject,
    /// The slots above it in order, up to max-s, the highest that is prepared in any of them: what was prepared in the highest
    /// view, or nothing, which stands for a null request.
    pub slots: Vec<Option<Subject>>,
}

impl Selection {
    /// What these view changes select. None if two of them say that different blocks were prepared for one slot in one view: then
    /// one of them is lying and has no place in a new view.
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

    /// The slots with what is chosen for them.
    pub fn iter(&self) -> impl Iterator<Item = (Height, Option<&Subject>)> {
        (self.stable.height.0 + 1..).map(Height).zip(self.slots.iter().map(Option::as_ref))
    }

    /// The highest slot, or the checkpoint if nothing is prepared above it.
    pub fn last(&self) -> Height {
        Height(self.stable.height.0 + self.slots.len() as u64)
    }
}

/// Whether the parts of a new view fit together and prove what it selects, if its certificates and signatures are genuine.
pub fn is_well_formed(new_view: &NewView, genesis: &Subject, window: u64, quorum: Quorum) -> bool {
    let NewView { endorsement, changes, checkpoint, prepared } = new_view;
    let mut voters: Vec<_> = new_view.voters().collect();
    voters.sort_unstable();
    voters.dedup();
    let fits =
        |change: &Declaration| change.vote.subject.view == new_view.view() && change.is_well_formed(genesis, window);
    if voters.len() != changes.len() || voters.len() < quorum.quorum() || !changes.iter().all(fits) {
        return false;
    }
    let Some(selection) = Selection::of(changes) else { return false };
    let proven = prepared.iter().map(|certificate| &certificate.subject);
    checkpoint.subject == selection.stable
        && proven.eq(selection.slots.iter().flatten())
        && endorsement.subject.domain == Domain::Proposal
        && endorsement.subject.height == selection.stable.height
        && endorsement.subject.digest == NewView::digest(changes)
        && endorsement.attachment == Attachment::None
}
