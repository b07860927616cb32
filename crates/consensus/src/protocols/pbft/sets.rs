//! The view change for codes: Castro and Liskov, "Practical Byzantine fault tolerance and proactive recovery",
//! TOCS 2002, section 4.5.
//!
//! VIEW-CHANGE claims two sets: P, the blocks that were prepared at its sender, each with the highest view of that; and
//! Q, the blocks for which the sender sent PREPARE (or, as the primary, PRE-PREPARE), each with the last view. For a
//! slot the new view carries a block over that some P claims for a view v, if
//!
//! - A1: a quorum claims no other block for v or a higher view, so that no other block was decided there; and
//! - A2: f+1 claim in Q that they sent PREPARE for it in v or later, so that the claim of P is not made up.
//!
//! B: it carries nothing over, a null request, if a quorum claims in P that nothing was prepared for the slot. If
//! neither holds, the primary waits for more view changes. Those of all honest replicas suffice.
//!
//! Why this is safe: a quorum sent COMMIT for a block that was decided in view v. Its honest replicas had prepared the
//! block, and claim it for v or for a later view that carried it over. Every quorum includes one of them. So B does not
//! hold, and a different block would have to be claimed for a view above v (A1), where f+1 replicas, one of them
//! honest, sent PREPARE for it (A2). But views above v carried the decided block over.
//!
//! Why honest replicas suffice: let v be the highest view for which one of them claims a block. None of them opposes
//! it, and f+1 of them sent the PREPAREs that prepared it. If none claims any, they are the quorum of B.
//!
//! Differences from the paper, and the reasons:
//!
//! - VIEW-CHANGE and CHECKPOINT are signed. They are rare, and signatures take the place of the acknowledgements by
//!   which the paper shows a primary's view changes to the others. So the highest checkpoint with a certificate in
//!   *any* view change is the new view's; the paper needs f+1 that claim the same one.
//! - NEW-VIEW has the view changes themselves, and every replica computes the selection from them.
//! - All view changes that the primary has may be among them: the conditions need a quorum for each slot, and it may
//!   be a different one.
//! - A primary need not have a block to carry it over, but a replica votes for it only once it has fetched it. At least
//!   one honest replica holds it: one of the f+1 of A2.

use super::log::Log;
use super::message::{Declaration, MAX_VOTES_PER_SLOT, NewView, ViewChange, bare};
use super::selection::Selection;
use super::showing::{Proofs, Showing};
use crate::protocols::facts::Facts;
use quorate_types::{Certificate, Height, Quorum, Subject};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The variant for codes, which also works with signatures.
pub struct Sets;

impl Showing for Sets {
    const FACTS: Facts = Facts {
        name: "pbft-mac",
        title: "PBFT for MACs",
        essence: "PBFT whose votes convince only their receivers, so that codes may replace their signatures. To \
                  replace a primary, replicas claim what they prepared and what they voted for; NEW-VIEW carries over \
                  what the claims of n-f replicas leave no alternative to.",
        awaited_delays: 0,
        shows_votes: false,
        ..Proofs::FACTS
    };
    const CARRIED_IS_HELD: bool = false;
    const SHOWS_VOTES: bool = true;
    const MORE_HELPS: bool = true;

    fn keep(certificate: Certificate) -> Certificate {
        bare(certificate.subject)
    }

    fn fits(change: &ViewChange) -> bool {
        change.prepared.iter().all(|claim| *claim == bare(claim.subject)) && has_few_votes(&change.voted)
    }

    fn declares(change: &Declaration) -> bool {
        has_few_votes(&change.voted)
    }

    fn select(changes: &[Declaration], quorum: Quorum) -> Option<Selection> {
        let stable = changes.iter().map(|change| change.checkpoint).max_by_key(|checkpoint| checkpoint.height)?;
        let prepared = by_slot(changes, |change| &change.prepared, stable.height);
        let voted = by_slot(changes, |change| &change.voted, stable.height);
        let last = prepared.last_key_value().map_or(stable.height, |(slot, _)| *slot);
        let claims = |sets: &BTreeMap<Height, Vec<Subject>>, slot| sets.get(&slot).cloned().unwrap_or_default();
        let mut slots = (stable.height.0 + 1..=last.0)
            .map(Height)
            .map(|slot| choose(&claims(&prepared, slot), &claims(&voted, slot), changes.len(), quorum))
            .collect::<Option<Vec<_>>>()?;
        // Null requests are of use only below a block that is carried over.
        slots.truncate(slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
        Some(Selection { stable, slots })
    }

    fn unproven<'a>(_shown: &'a [Certificate], _log: &Log) -> Vec<&'a Certificate> {
        Vec::new()
    }

    fn proofs(_selection: &Selection, _changes: &[&ViewChange]) -> Vec<Certificate> {
        Vec::new()
    }

    fn proves(shown: &[Certificate], _selection: &Selection) -> bool {
        shown.is_empty()
    }

    /// The view opened without this replica, so every block that it helped to decide is carried over, for the view of
    /// its decision or a later one.
    fn taken_for_prepared(_new_view: &NewView, selection: &Selection) -> Vec<Certificate> {
        selection.slots.iter().flatten().copied().map(bare).collect()
    }
}

/// Whether Q names each block of a slot once, and no more blocks than a replica remembers.
fn has_few_votes(voted: &[Subject]) -> bool {
    let same_slot = voted.chunk_by(|one, other| one.height == other.height);
    same_slot.into_iter().all(|votes| {
        let mut digests: Vec<_> = votes.iter().map(|vote| vote.digest).collect();
        digests.sort_unstable();
        digests.dedup();
        digests.len() == votes.len() && votes.len() <= MAX_VOTES_PER_SLOT
    })
}

/// Sorts the claims above a height by slot.
fn by_slot(
    changes: &[Declaration],
    set: fn(&Declaration) -> &Vec<Subject>,
    above: Height,
) -> BTreeMap<Height, Vec<Subject>> {
    let mut slots: BTreeMap<Height, Vec<Subject>> = BTreeMap::new();
    for subject in changes.iter().flat_map(set).filter(|subject| subject.height > above) {
        slots.entry(subject.height).or_default().push(*subject);
    }
    slots
}

/// Returns what is carried over for a slot, `Some(None)` for a null request, or `None` if that is not determined yet.
/// Each of `changes` view changes has at most one claim in `prepared`, and one for each block in `voted`. If several
/// blocks fulfil the conditions, none of them can have been decided alone; the highest view wins.
fn choose(prepared: &[Subject], voted: &[Subject], changes: usize, quorum: Quorum) -> Option<Option<Subject>> {
    let mut candidates = prepared.to_vec();
    candidates.sort_unstable_by_key(|claim| Reverse((claim.view, claim.digest)));
    candidates.dedup();
    let unopposed = |candidate: &Subject| {
        let opposed = |claim: &&Subject| {
            claim.view > candidate.view || (claim.view == candidate.view && claim.digest != candidate.digest)
        };
        bug!(OpposedCarriedOver) || changes - prepared.iter().filter(opposed).count() >= quorum.quorum()
    };
    let vouched = |candidate: &Subject| {
        let vouches = |vote: &&Subject| vote.digest == candidate.digest && vote.view >= candidate.view;
        bug!(ClaimBelieved) || voted.iter().filter(vouches).count() >= quorum.weak()
    };
    let chosen = candidates.into_iter().find(|candidate| unopposed(candidate) && vouched(candidate));
    let empty = changes - prepared.len() >= quorum.quorum();
    chosen.map(Some).or(empty.then_some(None))
}
