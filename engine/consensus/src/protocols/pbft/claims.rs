//! Claims without proof, and the evidence that ends them. [`sets`](super::sets) has the argument.
//!
//! The claims are determined by the journal alone. In journal order, a PREPARE adds to Q, a COMMIT to P, and a NEW-VIEW
//! reevaluates all claims of earlier views.

use super::engine::Engine;
use super::log::Log;
use super::message::{NewView, PbftMessage, Turn, ViewChange, bare};
use super::selection::Selection;
use super::view_change_evidence::ViewChangeEvidence;
use crate::data::answers::Question;
use crate::protocols::parts::Parts;
use crate::seam::To;
use quorate_types::{Certificate, Height, ReplicaId, Subject, View};

impl Log {
    /// Reevaluates the claims of earlier views after the first NEW-VIEW of `view` that this replica receives: Q becomes
    /// the blocks that the view carries over, and P keeps no others. A replica that `returns` after it lost its disk
    /// also adds them to P. Slots up to `floor` are skipped.
    pub fn follow(&mut self, view: View, selection: &Selection, returns: bool, floor: Height) {
        self.refute(view, selection);
        let judged = self.slots.range_mut(selection.stable.height.next()..);
        judged.for_each(|(_, slot)| slot.voted.retain(|vote| vote.view >= view));
        for (slot, chosen) in selection.iter().filter(|(slot, _)| *slot > floor) {
            let Some(subject) = chosen else { continue };
            let entry = self.slot(slot);
            entry.note_vote(*subject);
            if returns {
                entry.prepared = Some(bare(*subject));
            }
        }
    }

    /// Withdraws each claim in P from a view before `view` that a NEW-VIEW of `view` refutes: a block cannot have been
    /// decided before `view` unless the view carries it over, and not before the view for which it is carried over.
    pub fn refute(&mut self, view: View, selection: &Selection) {
        for (slot, entry) in self.slots.range_mut(selection.stable.height.next()..) {
            let Some(claim) = entry.prepared.take_if(|claim| claim.view() < view) else { continue };
            entry.prepared = selection.at(*slot).filter(|chosen| chosen.digest == claim.subject.digest).map(|chosen| {
                let earlier = chosen.view.min(claim.view());
                bare(Subject { view: earlier, ..*chosen })
            });
        }
    }

    /// Replaces P by the list in a summary of the journal.
    pub(super) fn set_prepared(&mut self, claims: Vec<Certificate>, floor: Height) {
        self.slots.values_mut().for_each(|slot| slot.prepared = None);
        for claim in claims.into_iter().filter(|claim| claim.subject.height > floor) {
            let slot = claim.subject.height;
            self.slot(slot).prepared = Some(claim);
        }
    }
}

/// Returns whether a NEW-VIEW of `view` withdraws one of the claims in `prepared`.
pub fn refutes(view: View, selection: &Selection, prepared: &[Subject]) -> bool {
    prepared.iter().filter(|claim| claim.view < view && claim.height > selection.stable.height).any(|claim| {
        let kept = |chosen: &&Subject| chosen.digest == claim.digest && chosen.view >= claim.view;
        selection.at(claim.height).filter(kept).is_none()
    })
}

/// Returns whether a replica with these claims above `floor` needs to learn of a NEW-VIEW of an earlier view: because
/// the NEW-VIEW withdraws one of them, or lets others claim a block for which this replica does not vouch.
pub fn is_news(view: View, selection: &Selection, prepared: &[Subject], voted: &[Subject], floor: Height) -> bool {
    let vouched = |chosen: &Subject| {
        chosen.height <= floor
            || voted.iter().any(|vote| {
                vote.height == chosen.height
                    && vote.view >= chosen.view
                    && (vote.digest == chosen.digest || vote.view >= view)
            })
    };
    refutes(view, selection, prepared) || !selection.slots.iter().flatten().all(vouched)
}

impl<S: ViewChangeEvidence> Engine<S> {
    /// Returns the last view whose NEW-VIEW this replica has taken into account.
    pub(super) fn judged_by(&self) -> View {
        self.opening.as_ref().map_or(View(1), |opening| opening.view())
    }

    /// Returns whether a NEW-VIEW of a view that this replica has left or missed still matters: the replica waits for
    /// another view, and the NEW-VIEW changes its claims.
    pub(super) fn learns_from(&self, new_view: &NewView, parts: &Parts) -> bool {
        let view = new_view.view();
        // A replica without a memory claims nothing, and adopts the claims of the view in which it returns.
        if !S::EVIDENCE_ENDS_CLAIMS || self.active || parts.safety.is_away() {
            return false;
        }
        let Some(selection) = S::select(&new_view.changes, parts.quorum) else { return false };
        let prepared: Vec<Subject> = self.log.prepared().iter().map(|claim| claim.subject).collect();
        match &self.opening {
            Some(opening) if opening.view() == view => refutes(view, &selection, &prepared),
            _ => view > self.judged_by() && is_news(view, &selection, &prepared, &self.log.voted(), self.log.low()),
        }
    }

    /// Takes into account a NEW-VIEW of a view that this replica has left or missed.
    pub(super) fn learn_from(&mut self, mut new_view: Box<NewView>, turn: &mut Turn<'_>) {
        let view = new_view.view();
        let selection = self.selection(&new_view, turn.parts);
        self.show_own_proofs(&mut new_view.prepared, &mut new_view.checkpoint);
        turn.out.keep_message(&PbftMessage::NewView(new_view.clone()));
        let checkpoint = new_view.checkpoint.clone();
        if view > self.judged_by() {
            let floor = self.floor(turn.parts);
            S::follow(&mut self.log, &new_view, &selection, false, floor);
            (self.opening, self.carried) = (Some(new_view), Some(selection));
        } else {
            self.log.refute(view, &selection);
        }
        self.stabilise(checkpoint, turn);
    }

    /// Sends the sender of a view change the last NEW-VIEW taken into account here, if the sender does not know it.
    pub(super) fn show_opening(&self, to: ReplicaId, change: &ViewChange, turn: &mut Turn<'_>) {
        let (Some(opening), Some(carried)) = (&self.opening, &self.carried) else { return };
        if !S::EVIDENCE_ENDS_CLAIMS || opening.view() >= change.view() {
            return;
        }
        let prepared: Vec<Subject> = change.prepared.iter().map(|claim| claim.subject).collect();
        let floor = change.checkpoint.subject.height;
        if !is_news(opening.view(), carried, &prepared, &change.voted, floor)
            || turn.parts.answers.admit(turn.now, to, Question::Claims(opening.view())).is_err()
        {
            return;
        }
        turn.parts.answers.charge(to, opening.proof_bytes());
        turn.out.send(To::One(to), PbftMessage::NewView(opening.clone()));
    }
}
