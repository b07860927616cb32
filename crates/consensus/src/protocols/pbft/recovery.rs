//! Recovery into a view and its slots after a restart.
//!
//! The journal holds every PREPARE with its block, every COMMIT with the proof that its slot was prepared, this
//! replica's own view changes, and the NEW-VIEW of each view in which it voted.

use super::engine::Engine;
use super::message::{NewView, PbftMessage, Turn, ViewChange};
use super::recall::Recall;
use super::selection::Selection;
use super::showing::Showing;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::Recalled;
use crate::recovery::journal::{Record, Standing};
use crate::seam::{Mark, Timer, To};
use crate::voting::safety::Promise;
use quorate_types::{Attachment, Domain, Encoder, Height, ReplicaId, Subject, View, Vote, Wire};
use std::collections::BTreeMap;

impl<S: Showing> Engine<S> {
    pub(super) fn take_recalled(&mut self, recalled: Recalled<'_, PbftMessage>, parts: &Parts) {
        self.recall.any = true;
        match recalled {
            Recalled::Promise(promise) => {
                let Subject { domain, height, .. } = promise.subject;
                if S::SHOWS_VOTES && domain == Domain::Prepare && height > self.floor(parts) {
                    self.log.slot(height).note_vote(promise.subject);
                }
                let said = |change: &mut Box<ViewChange>| change.vote.subject == promise.subject;
                if let Some(change) = self.recall.unsaid.take_if(said) {
                    self.recall.change = Some(change);
                }
            }
            Recalled::Message(PbftMessage::NewView(message)) => self.recall.opening = Some(message),
            Recalled::Message(PbftMessage::ViewChange(message)) => self.recall.unsaid = Some(message),
            Recalled::Message(_) | Recalled::Certificate(_) => {}
            Recalled::Standing(standing) => self.recall.shown = standing.votes,
        }
    }

    /// Enters the first view, or the one that the journal ends in.
    pub(super) fn start(&mut self, turn: &mut Turn<'_>) {
        self.follow_stable(turn);
        let Recall { any, opening, change, shown, .. } = std::mem::take(&mut self.recall);
        let opened = opening.as_ref().map_or(View(1), |opening| opening.view());
        let change = change.filter(|change| change.view() > opened);
        let view = change.as_ref().map_or(opened, |change| change.view());
        turn.parts.pacemaker.enter(turn.now, view, true);
        self.active = change.is_none();
        self.recall_proofs(opening.as_deref(), change.as_deref(), turn.parts);
        if let Some(opening) = opening {
            self.let_in = opening.changes.iter().map(|change| change.vote.clone()).collect();
            if self.active {
                let selection = self.selection(&opening, turn.parts);
                self.carry_over(&opening, &selection, turn);
                self.opening = Some(opening);
            }
        }
        self.let_in.extend(shown);
        self.change = change;
        self.recall_votes(turn);
        self.truncate(turn);
        if self.active {
            let leader = self.primary(view, turn.parts);
            turn.out.mark(Mark::EnteredView { view, leader: Some(leader) });
        }
        if any && !turn.parts.config.phases_only {
            self.say_again(turn);
        }
        self.work(turn);
    }

    /// Returns the slot up to which nothing needs to be known.
    fn floor(&self, parts: &Parts) -> Height {
        parts.checkpoints.stable().subject.height.min(parts.store.committed())
    }

    fn recall_proofs(&mut self, opening: Option<&NewView>, change: Option<&ViewChange>, parts: &Parts) {
        let floor = self.log.low().min(parts.store.committed());
        let cast = parts.safety.votes_on_slots().filter_map(|(_, proof)| proof);
        let shown = opening.iter().flat_map(|opening| &opening.prepared);
        let own = change.iter().flat_map(|change| &change.prepared);
        for proof in cast.chain(shown).chain(own).filter(|proof| proof.subject.height > floor) {
            let entry = self.log.slot(proof.subject.height);
            if entry.prepared.as_ref().is_none_or(|known| known.view() < proof.view()) {
                entry.prepared = Some(proof.clone());
            }
        }
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

    /// Repeats the last statements for replicas that were down too, and asks for missed ones.
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
        // The other promises have the last vote on each slot only.
        let lock = parts.safety.lock();
        let votes = self.log.slots.values().flat_map(|slot| &slot.voted);
        let votes = votes.map(|vote| Promise { subject: *vote, attachment: Attachment::None, lock });
        votes.map(Record::Promise).chain(standing.map(Record::Standing)).chain(messages).collect()
    }

    /// Returns the latest signed requests for views. If f+1 replicas made them, at least one is honest.
    pub(super) fn asked_for(&self, parts: &Parts) -> Standing {
        let mut latest: BTreeMap<ReplicaId, &Vote> = BTreeMap::new();
        let statements = self.changes.values().map(|change| &change.vote).chain(&self.let_in);
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

    /// Resumes voting after amnesia, in a view that opened without this replica. Adopts the proofs that opened it,
    /// which include every block that this replica may have helped to decide.
    pub(super) fn take_part_again(&mut self, new_view: &NewView, selection: &Selection, turn: &mut Turn<'_>) {
        let (safety, view) = (&mut turn.parts.safety, new_view.view());
        if !safety.is_away() || view <= safety.abstains() {
            return;
        }
        for proof in S::taken_for_prepared(new_view, selection) {
            let slot = proof.subject.height;
            self.log.slot(slot).prepared = Some(proof);
        }
        let lock = safety.lock();
        safety.come_back(lock);
        turn.out.mark(Mark::TakesPart { view });
    }
}
