//! The view change for MACs: Castro and Liskov, "Practical Byzantine fault tolerance and proactive recovery", TOCS
//! 2002, section 4.5.
//!
//! VIEW-CHANGE claims two sets: P, the blocks that were prepared at its sender, each with the highest view in which it
//! was; and Q, the blocks for which the sender vouches, because it sent PREPARE (or, as the primary, PRE-PREPARE) for
//! them, or the last NEW-VIEW carries them over. For a slot, the new view carries over a block that some P claims for a
//! view v, if
//!
//! - A1: a quorum claims no other block for v, and none for a higher view, so that no other block was decided there;
//!   and
//! - A2: f+1 vouch for it in Q for v or a later view, so that the claim in P is not invented.
//!
//! B: it carries over nothing (a null request) if a quorum claims in P that nothing was prepared for the slot. If
//! neither condition holds, the primary waits for more view changes.
//!
//! # End of a claim
//!
//! Only evidence ends a claim, never age or a lost disk. A NEW-VIEW of view w carries over every block that can have
//! been decided before w. A replica that receives a NEW-VIEW of a higher view than all before *follows* it
//! ([`claims`](super::claims)): P keeps a claim of an earlier view only if w carries over the same block, and then for
//! the lower of the two views; in Q, the blocks that w carries over replace the blocks of all earlier views. So Q has
//! at most two blocks per slot.
//!
//! - If a replica's last NEW-VIEW would change the claims of a VIEW-CHANGE, the replica answers with that NEW-VIEW. The
//!   receiver follows it, although it has left that view, and adapts its claims when it requests the next one.
//! - A faulty primary may open w twice. The second NEW-VIEW that a replica receives *refutes* claims in P like the
//!   first one, but leaves Q as it is.
//! - A replica that lost its disk returns in the first view in which it cannot have voted before. It follows that
//!   view's NEW-VIEW and also adds the blocks that it carries over to P.
//!
//! The claims are a function of the journal: it contains each PREPARE, COMMIT and NEW-VIEW in order, and a summary
//! lists P.
//!
//! # Safety
//!
//! If a block b is decided in a slot in view v, each NEW-VIEW of a view w > v carries b over, for v or a later view,
//! unless a stable checkpoint covers the slot. By induction over w:
//!
//! 1. A quorum sent COMMIT for b in v. Each honest member of the quorum claims b in P for v or later when it requests
//!    w. It did so in v. NEW-VIEWs up to v reevaluate only claims of earlier views, and those between v and w carry b
//!    over for v or later, so P keeps it. In views between, honest replicas sent PREPARE for b only. If the replica
//!    lost its disk, it returned above all views in which it had voted, and took b from the NEW-VIEW of that view.
//! 2. A replica that lost its disk and has not returned may request w and claim less. Together with the liars there are
//!    at most f of these: it returns in w or later, and replicas that lose their disks after that abstain beyond w (ADR
//!    012).
//! 3. So each quorum of view changes contains a claim of b for v or later, and B does not hold. By A1, another block c
//!    is carried over only for a view u > v. By A2, an honest replica vouches for c in u or later: some honest replica
//!    sent PREPARE for c there, or did before an earlier NEW-VIEW carried c over. But all NEW-VIEWs between v and w
//!    carry b over.
//!
//! # Liveness
//!
//! The claims of n-f honest replicas that have their disks determine every slot once they have exchanged their last
//! NEW-VIEWs. Let E be the highest view of these. All follow a NEW-VIEW of E then.
//!
//! - Claims of view E: a block that was prepared there has f+1 of these replicas among its PREPAREs. A replica that
//!   voted in E and lost its disk since has not returned, because it would follow a NEW-VIEW above E. So the block is
//!   vouched for, and nothing opposes it.
//! - Claims of earlier views: P contains only blocks that all the NEW-VIEWs of E carry over, at most for the views that
//!   they name, and all of them vouch for these. Before that, two honest claims for one view may oppose each other, if
//!   one was taken from a NEW-VIEW that carries over a block invented by a liar; that NEW-VIEW refutes the other.
//! - If nobody claims a block, they form the quorum of B.
//!
//! The price is at most one additional view change if a NEW-VIEW is new to some replica. A liar that sends one late
//! gains a view for each view that it led.
//!
//! Differences from the paper, and the reasons:
//!
//! - VIEW-CHANGE and CHECKPOINT are signed. They are rare, and signatures replace the acknowledgements by which the
//!   paper proves a primary's view changes to the others. So the highest checkpoint with a certificate in *any* view
//!   change is the new view's; the paper needs f+1 that claim the same one.
//! - NEW-VIEW contains the view changes themselves, and every replica computes the selection from them.
//! - It may contain all the primary's view changes: the conditions need a quorum for each slot, possibly a different
//!   one.
//! - The paper bounds Q by forgetting all but the last M blocks of a slot. A forgotten block may support another
//!   replica's claim, which then never ends: no view opens.
//! - A primary need not have a block to carry it over, but a replica votes for the block only after it has fetched it.
//!   At least one honest replica holds it: the one that sent PREPARE for it.

use super::log::Log;
use super::message::{Declaration, MAX_VOTES_PER_SLOT, NewView, ViewChange, bare};
use super::selection::Selection;
use super::view_change_evidence::{Proofs, ViewChangeEvidence};
use crate::facts::Facts;
use quorate_types::{Certificate, Height, Quorum, Subject};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The variant for MACs, which also works with signatures.
pub struct Sets;

impl ViewChangeEvidence for Sets {
    const FACTS: Facts = Facts {
        name: "pbft-mac",
        title: "PBFT for MACs",
        essence: "PBFT whose votes convince only their receivers, so that MACs may replace their signatures. To \
                  replace a primary, replicas claim what they prepared and what they voted for; NEW-VIEW carries over \
                  what the claims of n-f replicas leave no alternative to.",
        awaited_delays: 0,
        shows_votes: false,
        repairs_losses: true,
        ..Proofs::FACTS
    };
    const CARRIED_IS_HELD: bool = false;
    const SHOWS_VOTES: bool = true;
    const EVIDENCE_ENDS_CLAIMS: bool = true;
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
        select_by(changes, quorum, unopposed, vouched)
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

    fn follow(log: &mut Log, new_view: &NewView, selection: &Selection, returns: bool, floor: Height) {
        log.follow(new_view.view(), selection, returns, floor);
    }
}

/// Condition on a claim that a block was prepared, given all claims for its slot, or all votes.
pub type Condition = fn(candidate: &Subject, all: &[Subject], changes: usize, quorum: Quorum) -> bool;

/// Condition A1: a quorum of view changes makes no claim that opposes this one.
pub fn unopposed(candidate: &Subject, prepared: &[Subject], changes: usize, quorum: Quorum) -> bool {
    let opposed = |claim: &&Subject| {
        claim.view > candidate.view || (claim.view == candidate.view && claim.digest != candidate.digest)
    };
    changes - prepared.iter().filter(opposed).count() >= quorum.quorum()
}

/// Condition A2: f+1 replicas voted for the block, in this view or a later one.
pub fn vouched(candidate: &Subject, voted: &[Subject], _changes: usize, quorum: Quorum) -> bool {
    let vouches = |vote: &&Subject| vote.digest == candidate.digest && vote.view >= candidate.view;
    voted.iter().filter(vouches).count() >= quorum.weak()
}

/// Returns the blocks that a new view carries over, if its view changes determine them: blocks that satisfy both
/// conditions.
pub fn select_by(changes: &[Declaration], quorum: Quorum, a1: Condition, a2: Condition) -> Option<Selection> {
    let stable = changes.iter().map(|change| change.checkpoint).max_by_key(|checkpoint| checkpoint.height)?;
    let prepared = by_slot(changes, |change| &change.prepared, stable.height);
    let voted = by_slot(changes, |change| &change.voted, stable.height);
    let last = prepared.last_key_value().map_or(stable.height, |(slot, _)| *slot);
    let claims = |sets: &BTreeMap<Height, Vec<Subject>>, slot| sets.get(&slot).cloned().unwrap_or_default();
    let (count, conditions) = (changes.len(), (a1, a2));
    let mut slots = (stable.height.0 + 1..=last.0)
        .map(Height)
        .map(|slot| choose(&claims(&prepared, slot), &claims(&voted, slot), count, quorum, conditions))
        .collect::<Option<Vec<_>>>()?;
    // Null requests are needed only below a block that is carried over.
    slots.truncate(slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
    Some(Selection { stable, slots })
}

/// Returns whether Q names each block of a slot once, and no more blocks than a replica remembers.
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

/// Returns the block carried over for a slot, `Some(None)` for a null request, or `None` if that is not determined yet.
/// Each of `changes` view changes has at most one claim in `prepared`, and one for each block in `voted`. If several
/// blocks satisfy the conditions, none of them alone can have been decided; the highest view wins.
fn choose(
    prepared: &[Subject],
    voted: &[Subject],
    changes: usize,
    quorum: Quorum,
    (a1, a2): (Condition, Condition),
) -> Option<Option<Subject>> {
    let mut candidates = prepared.to_vec();
    candidates.sort_unstable_by_key(|claim| Reverse((claim.view, claim.digest)));
    candidates.dedup();
    let fulfils =
        |candidate: &Subject| a1(candidate, prepared, changes, quorum) && a2(candidate, voted, changes, quorum);
    let chosen = candidates.into_iter().find(fulfils);
    let empty = changes - prepared.len() >= quorum.quorum();
    chosen.map(Some).or(empty.then_some(None))
}
