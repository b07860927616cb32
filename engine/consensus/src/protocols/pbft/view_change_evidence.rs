//! Contents of a view change about the slots, in PBFT's two variants.
//!
//! If PREPAREs are signed, a quorum of them proves to everybody that a block was prepared: see [`Proofs`]. With MACs it
//! proves nothing to others, and the new primary has to infer the possibly decided blocks from the claims of a quorum:
//! see [`Sets`](super::sets::Sets).

use super::log::Log;
use super::message::{Declaration, NewView, ViewChange};
use super::selection::Selection;
use crate::facts::{Bond, Facts, Shape};
use quorate_types::{Attachment, Certificate, Domain, Height, Quorum, Subject};

/// A variant of the view change.
pub trait ViewChangeEvidence: Send + 'static {
    const FACTS: Facts;
    /// Whether enough honest replicas hold each block that a new view carries over, so that it can be voted for without
    /// its bundles.
    const CARRIED_IS_HELD: bool;
    /// Whether view changes contain their senders' PREPAREs.
    const SHOWS_VOTES: bool;
    /// Whether a NEW-VIEW ends the earlier claims that it refutes. Proofs need no end, and the paper ends claims by
    /// age.
    const EVIDENCE_ENDS_CLAIMS: bool;
    /// Whether more view changes than a quorum can determine a slot that a quorum leaves open.
    const MORE_HELPS: bool;

    /// Returns the part of the certificate that prepared a slot which a replica keeps.
    fn keep(certificate: Certificate) -> Certificate;

    /// Returns whether a view change has the format of this variant.
    fn fits(change: &ViewChange) -> bool;

    /// Returns whether the claims of a view change in a NEW-VIEW have the format of this variant.
    fn declares(change: &Declaration) -> bool;

    /// Returns the blocks that the new view carries over, if its view changes determine them.
    fn select(changes: &[Declaration], quorum: Quorum) -> Option<Selection>;

    /// Returns the certificates that have to be verified.
    fn unproven<'a>(shown: &'a [Certificate], log: &Log) -> Vec<&'a Certificate>;

    /// Returns the proofs of a selection that a NEW-VIEW must contain, from the view changes.
    fn proofs(selection: &Selection, changes: &[&ViewChange]) -> Vec<Certificate>;

    /// Returns whether a NEW-VIEW contains the proofs of its selection.
    fn proves(shown: &[Certificate], selection: &Selection) -> bool;

    /// Adapts this replica's claims to a NEW-VIEW. A replica that `returns` after it lost its disk may have helped to
    /// decide any block that the view carries over, and treats them all as prepared.
    fn follow(log: &mut Log, new_view: &NewView, selection: &Selection, returns: bool, floor: Height);
}

/// The variant with signatures: each claim that a block was prepared comes with its proof.
pub struct Proofs;

impl ViewChangeEvidence for Proofs {
    const FACTS: Facts = Facts {
        name: "pbft",
        title: "PBFT",
        essence: "A primary gives blocks to slots of a window, several at a time. n-f PREPAREs make a slot prepared, \
                  n-f COMMITs decide it, all to all. A primary that does not serve is replaced: NEW-VIEW carries over \
                  what n-f replicas had prepared.",
        shape: Shape::Slots,
        bound_by: Bond::Slot,
        timeouts_carry_certificates: false,
        optimistic_proposals: false,
        awaited_delays: 0,
        shows_votes: true,
        repairs_losses: true,
    };
    const CARRIED_IS_HELD: bool = true;
    const SHOWS_VOTES: bool = false;
    const EVIDENCE_ENDS_CLAIMS: bool = false;
    const MORE_HELPS: bool = false;

    fn keep(certificate: Certificate) -> Certificate {
        certificate
    }

    fn fits(change: &ViewChange) -> bool {
        change.voted.is_empty()
    }

    fn declares(change: &Declaration) -> bool {
        change.voted.is_empty()
    }

    fn select(changes: &[Declaration], _quorum: Quorum) -> Option<Selection> {
        Selection::of(changes)
    }

    fn unproven<'a>(shown: &'a [Certificate], log: &Log) -> Vec<&'a Certificate> {
        shown.iter().filter(|proof| log.proof(&proof.subject).is_none()).collect()
    }

    fn proofs(selection: &Selection, changes: &[&ViewChange]) -> Vec<Certificate> {
        let proof = |subject: &Subject| {
            changes.iter().flat_map(|change| &change.prepared).find(|proof| proof.subject == *subject)
        };
        selection.slots.iter().flatten().filter_map(proof).cloned().collect()
    }

    fn proves(shown: &[Certificate], selection: &Selection) -> bool {
        shown.iter().map(|certificate| &certificate.subject).eq(selection.slots.iter().flatten())
    }

    fn follow(log: &mut Log, new_view: &NewView, _selection: &Selection, returns: bool, floor: Height) {
        for proof in new_view.prepared.iter().filter(|proof| returns && proof.subject.height > floor) {
            log.slot(proof.subject.height).prepared = Some(proof.clone());
        }
    }
}

/// Returns whether the parts of a new view are consistent and prove its selection, given valid
/// certificates and signatures.
pub(super) fn is_well_formed<S: ViewChangeEvidence>(
    new_view: &NewView,
    genesis: &Subject,
    window: u64,
    quorum: Quorum,
) -> bool {
    let NewView { endorsement, changes, checkpoint, prepared } = new_view;
    let mut voters: Vec<_> = new_view.voters().collect();
    voters.sort_unstable();
    voters.dedup();
    let fits = |change: &Declaration| {
        change.vote.subject.view == new_view.view() && change.is_well_formed(genesis, window) && S::declares(change)
    };
    let enough = if bug!(ViewOpenedByFew) { quorum.weak() } else { quorum.quorum() };
    if voters.len() != changes.len() || voters.len() < enough || !changes.iter().all(fits) {
        return false;
    }
    let Some(selection) = S::select(changes, quorum) else { return false };
    checkpoint.subject == selection.stable
        && S::proves(prepared, &selection)
        && endorsement.subject.domain == Domain::Proposal
        && endorsement.subject.height == selection.stable.height
        && endorsement.subject.digest == NewView::digest(changes)
        && endorsement.attachment == Attachment::None
}
