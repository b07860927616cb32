//! Condition A3 on the blocks of a new view (Castro and Liskov, TOCS 2002, figure 4): the primary has them.
//!
//! In the variant for MACs, a claim that a block was prepared may be a lie, and the honest replica that vouches for it
//! may have voted without the bundles, because it knew their certificates. If nobody has the bundles any more, the n-f
//! replicas cannot vote for the block in any view that carries it over. So a primary prefers view changes without the
//! blocks that it lacks. The honest replicas' view changes are such: if one of them claimed the block, a quorum would
//! have voted for it, and an honest voter would have its bundles. Safety depends only on the conditions on the view
//! changes, not on this choice.

use super::engine::Engine;
use super::message::{Turn, ViewChange};
use super::selection::Selection;
use super::view_change::choose;
use super::view_change_evidence::ViewChangeEvidence;
use quorate_types::{Digest, Height};

impl<S: ViewChangeEvidence> Engine<S> {
    /// Chooses the view changes of a NEW-VIEW such that the blocks carried over are available, if possible. Returns
    /// `None` while more view changes are needed, or may help soon.
    pub(super) fn choose_held<'a>(
        &self,
        all: Vec<&'a ViewChange>,
        turn: &Turn<'_>,
    ) -> Option<(Vec<&'a ViewChange>, Selection)> {
        let quorum = turn.parts.quorum;
        let first = choose::<S>(&all, quorum)?;
        let missing = missing(&first.1, turn);
        if S::CARRIED_IS_HELD || missing.is_empty() {
            return Some(first);
        }
        let claims = |change: &ViewChange| change.prepared.iter().any(|claim| missing.contains(&claim.subject.digest));
        let without: Vec<&ViewChange> = all.iter().copied().filter(|change| !claims(change)).collect();
        let held = match without.len() >= quorum.quorum() {
            true => choose::<S>(&without, quorum).filter(|(_, selection)| self::missing(selection, turn).is_empty()),
            false => None,
        };
        let waited = self.wanted_since.map_or_else(Default::default, |since| turn.now.since(since));
        let waits = all.len() < quorum.replicas() && waited < turn.parts.pacemaker.retransmission();
        held.or(Some(first).filter(|_| !waits))
    }
}

/// Returns the blocks of a selection that are missing, or lack bundles, if replicas certify the storage of bundles.
/// With every other kind of dissemination, an honest replica that voted for a block has its bundles.
fn missing(selection: &Selection, turn: &Turn<'_>) -> Vec<Digest> {
    let store = &turn.parts.store;
    let lacks = |(slot, digest): &(Height, Digest)| *slot > store.committed() && !store.holds(digest);
    let chosen = selection.iter().filter_map(|(slot, chosen)| Some((slot, chosen?.digest)));
    match turn.parts.config.dissemination.is_certified() {
        true => chosen.filter(lacks).map(|(_, digest)| digest).collect(),
        false => Vec::new(),
    }
}
