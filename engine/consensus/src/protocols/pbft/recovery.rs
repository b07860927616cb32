//! Recovery into a view and its slots after a restart.
//!
//! The journal contains every PREPARE with its block, every COMMIT with the proof that its slot was prepared, this
//! replica's own view changes, and the NEW-VIEW of each view in which it voted.

use super::engine::Engine;
use super::message::{NewView, PbftMessage, Turn, ViewChange};
use super::recall::Recall;
use super::selection::Selection;
use super::view_change_evidence::ViewChangeEvidence;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::Recalled;
use crate::recovery::journal::{Record, Standing};
use crate::seam::{Mark, Timer, To};
use crate::voting::safety::Promise;
use quorate_types::{Attachment, Domain, Encoder, Height, ReplicaId, Subject, Vote, Wire};
use std::collections::BTreeMap;

impl<S: ViewChangeEvidence> Engine<S> {
    pub(super) fn take_recalled(&mut self, recalled: Recalled<'_, PbftMessage>, parts: &mut Parts) {
        self.recall.any = true;
        match recalled {
            Recalled::Promise(promise) => {
                self.recall_claim(promise, parts);
                let said = |change: &mut Box<ViewChange>| change.vote.subject == promise.subject;
                if let Some(change) = self.recall.unsaid.take_if(said) {
                    self.recall.change = Some(change);
                }
            }
            Recalled::Message(PbftMessage::NewView(message)) => self.recall_new_view(message, parts),
            Recalled::Message(PbftMessage::ViewChange(message)) => self.recall.unsaid = Some(message),
            Recalled::Message(_) | Recalled::Certificate(_) => {}
            Recalled::Standing(standing) => self.recall.shown = standing.votes,
            Recalled::Claims(claims) => {
                self.recall.listed = true;
                self.log.set_prepared(claims, self.floor(parts));
            }
        }
    }

    /// Restores the claim that results from a PREPARE or COMMIT. A summary repeats the last ones of each slot after the
    /// NEW-VIEW that reevaluated them.
    fn recall_claim(&mut self, promise: &Promise, parts: &Parts) {
        let Subject { domain, height, view, .. } = promise.subject;
        if height <= self.floor(parts) {
            return;
        }
        let judged = S::EVIDENCE_ENDS_CLAIMS && view < self.judged_by();
        match (domain, &promise.attachment) {
            (Domain::Prepare, _) if S::SHOWS_VOTES && !judged => self.log.slot(height).note_vote(promise.subject),
            (Domain::Commit, Attachment::HighCertificate(proof)) if !(judged && self.recall.listed) => {
                let entry = self.log.slot(height);
                if entry.prepared.as_ref().is_none_or(|known| known.view() < proof.view()) {
                    entry.prepared = Some((**proof).clone());
                }
                if let Some(carried) = self.carried.clone().filter(|_| judged) {
                    self.log.refute(self.judged_by(), &carried);
                }
            }
            _ => {}
        }
    }

    /// Restores a NEW-VIEW, with its effect on the claims at that time.
    fn recall_new_view(&mut self, new_view: Box<NewView>, parts: &mut Parts) {
        let selection = self.selection(&new_view, parts);
        match &self.opening {
            Some(known) if known.view() > new_view.view() => {}
            Some(known) if known.view() == new_view.view() => {
                if S::SHOWS_VOTES {
                    self.log.refute(new_view.view(), &selection);
                }
            }
            _ => {
                if self.adjust_claims(&new_view, &selection, parts) && bug!(TakenClaimsForgotten) {
                    self.log.set_prepared(Vec::new(), Height(0));
                }
                (self.opening, self.carried) = (Some(new_view), Some(selection));
            }
        }
    }

    /// Enters the first view, or the last view of the journal.
    pub(super) fn start(&mut self, turn: &mut Turn<'_>) {
        self.follow_stable(turn);
        let Recall { any, change, shown, .. } = std::mem::take(&mut self.recall);
        let opened = self.judged_by();
        let change = change.filter(|change| change.view() > opened);
        let view = change.as_ref().map_or(opened, |change| change.view());
        turn.parts.pacemaker.enter(turn.now, view, true);
        self.active = change.is_none();
        if let Some(opening) = self.opening.take() {
            self.admitted_by = opening.changes.iter().map(|change| change.vote.clone()).collect();
            if let Some(carried) = self.carried.clone().filter(|_| self.active) {
                self.carry_over(&opening, &carried, turn);
            }
            self.opening = Some(opening);
        }
        self.admitted_by.extend(shown);
        self.change = change;
        self.recall_votes(turn);
        self.truncate(turn);
        if self.active {
            let leader = self.primary(view, turn.parts);
            turn.out.mark(Mark::EnteredView { view, leader: Some(leader) });
        }
        if any {
            self.say_again(turn);
        }
        self.work(turn);
    }

    /// Returns the slot up to which no knowledge is needed.
    pub(super) fn floor(&self, parts: &Parts) -> Height {
        parts.checkpoints.stable().subject.height.min(parts.store.committed())
    }

    /// Restores this replica's votes in their slots, and sets all other blocks aside.
    fn recall_votes(&mut self, turn: &mut Turn<'_>) {
        let (view, me) = (turn.view(), turn.parts.me);
        let is_primary = self.primary(view, turn.parts) == me;
        let floor = self.log.low().min(turn.committed());
        let cast: Vec<Subject> = turn.parts.safety.votes_on_slots().map(|(subject, _)| *subject).collect();
        for Subject { domain, height, digest, .. } in
            cast.into_iter().filter(|subject| subject.height > floor && (subject.view == view || !self.active))
        {
            let entry = self.log.slot(height);
            entry.accepted = Some(digest);
            entry.since = Some(turn.now);
            match domain {
                Domain::Commit => entry.commit_cast = Some(digest),
                _ => {
                    entry.prepare_cast = Some(digest);
                    entry.endorsed = !(is_primary || entry.carried || entry.null);
                }
            }
        }
        let open: Vec<_> = turn.parts.store.tree.journaled_above_commit().cloned().collect();
        for block in open {
            if self.log.slot(block.height).accepted != Some(block.digest()) {
                turn.parts.store.set_aside(&block.digest());
            }
        }
        let used = self.log.slots.iter().rev().find(|(_, slot)| slot.accepted.is_some()).map(|(slot, _)| *slot);
        let last = used.unwrap_or_default().max(self.log.low()).max(turn.committed());
        self.next = self.next.max(last.next());
    }

    /// Repeats the last statements for replicas that were down too, and requests missed ones.
    fn say_again(&mut self, turn: &mut Turn<'_>) {
        match &self.change {
            Some(change) => {
                turn.out.recast(To::All, PbftMessage::ViewChange(change.clone()));
                turn.out.arm(Timer::View, turn.parts.pacemaker.retransmission());
            }
            None => {
                for slot in self.log.slots.keys().copied().collect::<Vec<_>>() {
                    self.try_prepare(slot, turn);
                }
                let committed = turn.committed();
                for replica in (0..turn.parts.quorum.replicas() as u16).map(ReplicaId) {
                    self.resend(replica, committed, turn);
                }
            }
        }
        self.inquire(turn);
    }

    pub(super) fn summary_records(&self, parts: &Parts) -> Vec<Record> {
        let opening = self.opening.iter().map(|opening| PbftMessage::NewView(opening.clone()));
        let change = self.change.iter().map(|change| PbftMessage::ViewChange(change.clone()));
        let messages = opening.chain(change).map(|message| {
            let mut out = Encoder::with_capacity(512);
            message.encode(&mut out);
            Record::Message(out.finish())
        });
        let standing = std::iter::once(self.asked_for(parts)).filter(|standing| !standing.votes.is_empty());
        let claims = Record::Claims(self.log.prepared());
        standing.map(Record::Standing).chain(messages).chain([claims]).collect()
    }

    /// Returns the latest signed requests for views. If f+1 replicas made them, at least one is honest.
    pub(super) fn asked_for(&self, parts: &Parts) -> Standing {
        let mut latest: BTreeMap<ReplicaId, &Vote> = BTreeMap::new();
        let statements = self.changes.values().map(|change| &change.vote).chain(&self.admitted_by);
        for vote in statements {
            let known = latest.entry(vote.voter).or_insert(vote);
            if vote.subject.view > known.subject.view {
                *known = vote;
            }
        }
        let mut votes: Vec<Vote> = latest.into_values().cloned().collect();
        votes.sort_by_key(|vote| std::cmp::Reverse(vote.subject.view));
        votes.truncate(parts.quorum.weak());
        Standing { certificates: Vec::new(), votes }
    }

    /// Adjusts the claims to a NEW-VIEW that has become the last one, and resumes voting after amnesia if its view
    /// is the first in which this replica cannot have voted. Returns whether it does.
    pub(super) fn adjust_claims(&mut self, new_view: &NewView, selection: &Selection, parts: &mut Parts) -> bool {
        let (floor, safety) = (self.floor(parts), &mut parts.safety);
        let returns = safety.is_away() && new_view.view() > safety.abstains();
        S::follow(&mut self.log, new_view, selection, returns, floor);
        if returns {
            let lock = safety.lock();
            safety.come_back(lock);
        }
        returns
    }
}
