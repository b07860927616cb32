//! Replacement of a primary (Castro and Liskov, OSDI 1999, sections 4.4 and 4.5.2).
//!
//! A replica that requests a view leaves its previous view permanently and no longer votes in it. It repeats the
//! request until the view opens. Once a quorum has requested it, the view has one view timeout to open; then the
//! replica requests the next one. A replica that sees f+1 requests for higher views joins them.

use super::engine::Engine;
use super::message::{Declaration, NewView, PbftMessage, Turn, ViewChange};
use super::selection::Selection;
use super::view_change_evidence::{ViewChangeEvidence, is_well_formed};
use crate::data::pool::MAX_RELAYED_BUNDLES;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::Admission;
use crate::recovery::journal::{FORGOTTEN, Record};
use crate::seam::{Drop, Mark, Timer, To};
use crate::voting::pacemaker::Alarm;
use quorate_types::{Block, Certificate, Digest, Domain, Height, Quorum, ReplicaId, View};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

impl<S: ViewChangeEvidence> Engine<S> {
    /// Returns whether f+1 replicas request this view or a higher one, so that at least one honest replica does and
    /// this replica must keep requesting it.
    pub(super) fn is_view_change_on(&self, parts: &Parts) -> bool {
        let asking = self.changes.values().filter(|change| change.view() >= parts.pacemaker.view());
        !self.active && asking.count() >= parts.quorum.weak()
    }

    pub(super) fn on_view_alarm(&mut self, turn: &mut Turn<'_>) {
        self.watch(turn);
        if !turn.parts.pacemaker.is_working() {
            return self.inquire_again(turn);
        }
        if !self.active {
            return self.ask_again(turn);
        }
        match turn.parts.pacemaker.ring(turn.now) {
            Alarm::Idle => {}
            Alarm::Later(time) => turn.out.arm(Timer::View, time),
            // After amnesia a replica does not request a view in which it may have voted; it follows the others. If
            // another replica is down too, they may need this one to make progress, so it reports the first view that
            // it can join.
            Alarm::GiveUp if turn.view() <= turn.parts.safety.abstains() && turn.parts.safety.is_away() => {
                self.remind(turn.parts.pacemaker.duration() / 2, turn);
                if turn.parts.safety.abstains() != FORGOTTEN {
                    self.seek_view(turn);
                }
            }
            Alarm::GiveUp => self.change_view(turn.view().next(), turn),
            Alarm::Remind(time) => self.remind(time, turn),
        }
    }

    /// Relays pending commands to the primary and reports this replica's status; the timer fires again after `time`.
    fn remind(&mut self, time: Duration, turn: &mut Turn<'_>) {
        turn.out.arm(Timer::View, time);
        let primary = self.primary(turn.view(), turn.parts);
        if primary != turn.parts.me {
            turn.relay(To::One(primary), turn.parts.store.pool.oldest_pending(MAX_RELAYED_BUNDLES));
        }
        self.ask_status(turn);
    }

    /// Asks for the next view if the primary orders other commands and passes over the one that has waited longest. The
    /// evidence is the primary's latest proposal of this view among the slots that were just executed, which are above
    /// `before`.
    pub(super) fn judge_primary(&mut self, before: Height, turn: &mut Turn<'_>) {
        let primary = self.primary(turn.view(), turn.parts);
        let executed = self.log.slots.range(before.next()..=turn.committed());
        let proposed = executed.filter(|(_, slot)| slot.endorsed).filter_map(|(_, slot)| slot.since).max();
        let Some(proposed) = proposed.filter(|_| self.active && primary != turn.parts.me) else { return };
        if turn.judge_leader(proposed, primary) {
            let rule = "the primary passes over what has waited longest";
            turn.out.mark(Mark::Refused { view: turn.view(), rule });
            self.change_view(turn.view().next(), turn);
        }
    }

    fn ask_again(&mut self, turn: &mut Turn<'_>) {
        let patience = turn.parts.pacemaker.duration();
        let waited = self.wanted_since.map(|since| turn.now.since(since));
        if waited.is_some_and(|waited| waited >= patience) {
            return self.change_view(turn.view().next(), turn);
        }
        self.try_open(turn);
        if let Some(change) = self.change.as_mut() {
            change.committed = turn.parts.store.committed();
            turn.out.recast(To::Others, PbftMessage::ViewChange(change.clone()));
        }
        self.asked_for_view = turn.now;
        let left = waited.map_or(patience, |waited| patience - waited);
        turn.out.arm(Timer::View, turn.parts.pacemaker.retransmission().min(left));
    }

    /// Leaves the current view and asks for a higher one.
    pub(super) fn change_view(&mut self, view: View, turn: &mut Turn<'_>) {
        let (checkpoint, mut prepared, voted) = (self.log.stable.clone(), self.log.prepared(), self.log.voted());
        prepared.retain(|proof| !bug!(ExecutedOmitted) || proof.subject.height > turn.committed());
        let subjects: Vec<_> = prepared.iter().map(|certificate| certificate.subject).collect();
        let digest = Declaration::digest(&checkpoint.subject, &subjects, &voted);
        let Some(ballot) = turn.parts.safety.change_view(view, self.log.low(), digest) else { return };
        turn.out.mark(Mark::TimedOut(turn.view()));
        turn.parts.pacemaker.on_timeout();
        turn.parts.pacemaker.enter(turn.now, view, false);
        self.batching.on_timeout(turn.parts.store.pool.open_bundles());
        self.active &= bug!(VotesAfterViewChange);
        self.wanted_since = None;
        self.asked_for_view = turn.now;
        let committed = turn.committed();
        let vote = ballot.to_vote(turn.parts.me);
        let change = Box::new(ViewChange { vote, checkpoint, prepared, voted, committed });
        self.change = Some(change.clone());
        turn.out.persist(Record::Standing(self.asked_for(turn.parts)));
        turn.out.keep_message(&PbftMessage::ViewChange(change.clone()));
        turn.cast(&ballot, To::All, |vote| PbftMessage::ViewChange(Box::new(ViewChange { vote, ..*change })));
        turn.out.arm(Timer::View, turn.parts.pacemaker.retransmission());
        self.watch(turn);
    }

    pub(super) fn admit_view_change(&self, parts: &Parts, from: ReplicaId, change: &ViewChange) -> Admission {
        if change.vote.voter != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        // A request for a view that is already open, or a repeated request, only needs an answer, so its contents are
        // not verified.
        if self.is_over(change.view(), parts) || self.knows(from, change) {
            return Admission::Check(Vec::new());
        }
        if !change.declaration().is_well_formed(&self.genesis, parts.config.window) || !S::fits(change) {
            return Admission::Drop(Drop::Malformed);
        }
        if from == parts.me {
            return Admission::Check(Vec::new());
        }
        let unknown = S::unproven(&change.prepared, &self.log).into_iter();
        let checkpoint = (change.checkpoint.subject != self.log.stable.subject).then_some(&change.checkpoint);
        Admission::CheckSigned(unknown.chain(checkpoint).cloned().collect(), vec![change.vote.clone()])
    }

    fn is_over(&self, view: View, parts: &Parts) -> bool {
        view < parts.pacemaker.view() || (self.active && view == parts.pacemaker.view())
    }

    fn knows(&self, from: ReplicaId, change: &ViewChange) -> bool {
        self.changes.get(&from).is_some_and(|known| known.vote == change.vote)
    }

    pub(super) fn on_view_change(&mut self, from: ReplicaId, mut change: Box<ViewChange>, turn: &mut Turn<'_>) {
        let view = change.view();
        if from != turn.parts.me {
            self.help(from, view, false, change.committed, turn);
            self.show_opening(from, &change, turn);
        }
        if self.is_over(view, turn.parts) {
            return;
        }
        if self.changes.get(&from).is_none_or(|known| known.view() < view) {
            self.show_own_proofs(&mut change.prepared, &mut change.checkpoint);
            self.changes.insert(from, *change);
        }
        self.join(turn);
        self.try_open(turn);
        self.watch(turn);
    }

    /// Replaces the sender's proofs by those verified here, before they are stored and sent to others. A proof of a
    /// fact already known here is not verified when it arrives, and may be invalid.
    pub(super) fn show_own_proofs(&self, prepared: &mut [Certificate], checkpoint: &mut Certificate) {
        for proof in prepared {
            if let Some(checked) = self.log.proof(&proof.subject) {
                *proof = checked.clone();
            }
        }
        if checkpoint.subject == self.log.stable.subject {
            *checkpoint = self.log.stable.clone();
        }
    }

    /// Asks for the highest view that f+1 replicas have asked for (or for a higher one), if it is above the current
    /// view. At least one of the f+1 is honest.
    fn join(&mut self, turn: &mut Turn<'_>) {
        let current = turn.view();
        let mut higher: Vec<View> =
            self.changes.values().map(ViewChange::view).filter(|view| *view > current).collect();
        higher.sort_unstable_by(|one, other| other.cmp(one));
        let enough = if bug!(ViewJumpOnViewChange) { 1 } else { turn.parts.quorum.weak() };
        if let Some(view) = higher.get(enough - 1) {
            self.change_view(*view, turn);
        }
    }

    /// Opens the view as its primary, if a quorum that includes this replica has asked for it. The view's timeout
    /// starts when a quorum has left all lower views.
    pub(super) fn try_open(&mut self, turn: &mut Turn<'_>) {
        let quorum = if bug!(ViewOpenedByFew) { turn.parts.quorum.weak() } else { turn.parts.quorum.quorum() };
        let view = turn.view();
        let asking = self.changes.values().filter(|change| change.view() == view);
        // A replica that asks for a higher view has left all lower ones and will not ask for this one again.
        let asked = self.changes.values().filter(|change| change.view() >= view).count();
        let unasked = |replica: &ReplicaId| self.changes.get(replica).is_none_or(|change| change.view() < view);
        let gave_up = asked + self.seeks.iter().filter(|(replica, seeks)| **seeks > view && unasked(replica)).count();
        if self.active || gave_up < quorum {
            return;
        }
        if self.wanted_since.is_none() {
            self.wanted_since = Some(turn.now);
            turn.out.arm(Timer::View, turn.parts.pacemaker.duration().min(turn.parts.pacemaker.retransmission()));
        }
        let mine = self.changes.get(&turn.parts.me).filter(|change| change.view() == view);
        let leads = self.primary(view, turn.parts) == turn.parts.me && asking.clone().count() >= quorum;
        let (Some(mine), true) = (mine, leads) else { return };
        let others = asking.filter(|change| change.vote.voter != turn.parts.me);
        let all: Vec<&ViewChange> = std::iter::once(mine).chain(others).collect();
        let Some((chosen, selection)) = self.choose_held(all, turn) else { return };
        let changes: Vec<Declaration> = chosen.iter().map(|change| change.declaration()).collect();
        let stable = chosen.iter().map(|change| &change.checkpoint).find(|proof| proof.subject == selection.stable);
        let checkpoint = stable.expect("the selected checkpoint comes from one of the view changes").clone();
        let prepared = S::proofs(&selection, &chosen);
        let digest = NewView::digest(&changes);
        if let Some(ballot) = turn.parts.safety.open_view(view, selection.stable.height, digest) {
            turn.cast(&ballot, To::All, |endorsement| {
                PbftMessage::NewView(Box::new(NewView { endorsement, changes, checkpoint, prepared }))
            });
        }
    }

    pub(super) fn admit_new_view(&self, parts: &Parts, from: ReplicaId, new_view: &NewView) -> Admission {
        let view = new_view.view();
        if self.is_over(view, parts) && !self.learns_from(new_view, parts) {
            return Admission::Drop(Drop::Stale);
        }
        if new_view.endorsement.voter != self.primary(view.max(View(1)), parts) {
            return Admission::Drop(Drop::NotTheLeader);
        }
        if !is_well_formed::<S>(new_view, &self.genesis, parts.config.window, parts.quorum) {
            return Admission::Drop(Drop::Malformed);
        }
        if from == parts.me {
            return Admission::Check(Vec::new());
        }
        let unknown = S::unproven(&new_view.prepared, &self.log).into_iter();
        let checkpoint = (new_view.checkpoint.subject != self.log.stable.subject).then_some(&new_view.checkpoint);
        let seen = |change: &&Declaration| {
            !self.changes.get(&change.vote.voter).is_some_and(|known| known.vote == change.vote)
        };
        let votes = new_view.changes.iter().filter(seen).map(|change| &change.vote);
        Admission::CheckSigned(
            unknown.chain(checkpoint).cloned().collect(),
            votes.chain([&new_view.endorsement]).cloned().collect(),
        )
    }

    pub(super) fn on_new_view(&mut self, from: ReplicaId, mut new_view: Box<NewView>, turn: &mut Turn<'_>) {
        let view = new_view.view();
        if self.is_over(view, turn.parts) {
            return match self.learns_from(&new_view, turn.parts) {
                true => self.learn_from(new_view, turn),
                false => turn.out.drop_message(from, Drop::Stale),
            };
        }
        let selection = self.selection(&new_view, turn.parts);
        self.show_own_proofs(&mut new_view.prepared, &mut new_view.checkpoint);
        if view > turn.view() {
            turn.parts.pacemaker.enter(turn.now, view, false);
            self.batching.on_timeout(turn.parts.store.pool.open_bundles());
        }
        turn.parts.pacemaker.restart(turn.now);
        turn.out.keep_message(&PbftMessage::NewView(new_view.clone()));
        self.admitted_by = new_view.changes.iter().map(|change| change.vote.clone()).collect();
        if self.adjust_claims(&new_view, &selection, turn.parts) {
            turn.out.mark(Mark::TakesPart { view });
        }
        (self.active, self.change, self.wanted_since) = (true, None, None);
        self.stabilise(new_view.checkpoint.clone(), turn);
        turn.parts.tally.forget_kind_before(Domain::Prepare, view);
        turn.parts.tally.forget_kind_before(Domain::Commit, view);
        let leader = self.primary(view, turn.parts);
        turn.out.mark(Mark::EnteredView { view, leader: Some(leader) });
        self.carry_over(&new_view, &selection, turn);
        (self.opening, self.carried) = (Some(new_view), Some(selection));
        for slot in self.log.slots.keys().copied().collect::<Vec<_>>() {
            self.try_prepare(slot, turn);
        }
        for message in self.early.take() {
            self.on_pre_prepare(message.block.author, message, turn);
        }
        for certificate in std::mem::take(&mut self.ahead) {
            self.on_prepared(certificate, turn);
        }
        self.work(turn);
        if turn.parts.pacemaker.is_working() {
            turn.out.arm(Timer::View, turn.parts.pacemaker.duration() / 2);
        }
    }

    /// Returns the selection of an admitted NEW-VIEW: the blocks that it carries over.
    pub(super) fn selection(&self, new_view: &NewView, parts: &Parts) -> Selection {
        S::select(&new_view.changes, parts.quorum).expect("an admitted NEW-VIEW has a consistent selection")
    }

    /// Assigns the new view's selection to the slots, and drops blocks of earlier views that are not selected.
    pub(super) fn carry_over(&mut self, new_view: &NewView, selection: &Selection, turn: &mut Turn<'_>) {
        let (view, primary, committed) = (new_view.view(), new_view.endorsement.voter, turn.committed());
        let mut before: BTreeMap<Height, (Digest, bool)> = BTreeMap::new();
        for (slot, entry) in &mut self.log.slots {
            let was = std::mem::take(entry);
            (entry.prepared, entry.voted) = (was.prepared, was.voted);
            if let Some(digest) = was.accepted {
                before.insert(*slot, (digest, was.prepare_cast == Some(digest)));
            }
        }
        let floor = self.log.low().min(committed);
        for (slot, chosen) in selection.iter().filter(|(slot, _)| *slot > floor) {
            let entry = self.log.slot(slot);
            entry.carried = chosen.is_some();
            match chosen {
                Some(subject) => {
                    let source = new_view.changes.iter().find(|change| change.prepared.contains(subject));
                    let source = source.map_or(turn.parts.me, |change| change.vote.voter);
                    self.adopt_carried(slot, subject.digest, source, turn);
                }
                None => {
                    let block = Arc::new(Block::of_slot(view, primary, slot, Vec::new(), 0));
                    entry.accepted = Some(block.digest());
                    entry.null = true;
                    entry.since = Some(turn.now);
                    turn.offer(block, turn.parts.me);
                }
            }
        }
        for (slot, (digest, voted)) in before {
            let decided = self.log.decided.get(&slot) == Some(&digest);
            let entry = self.log.slot(slot);
            if entry.accepted == Some(digest) || decided || slot <= committed {
                continue;
            }
            // A replica that has sent PREPARE keeps the block until its slot is decided, because a later view may
            // propose it again and other replicas may need it.
            match voted || entry.prepared.as_ref().is_some_and(|proof| proof.subject.digest == digest) {
                true => turn.parts.store.set_aside(&digest),
                false => turn.parts.store.discard(&digest),
            }
        }
        self.next = selection.last().max(self.log.low()).next();
    }
}

/// Chooses the view changes of a NEW-VIEW: the first quorum, or all of them if a quorum leaves some slot open.
pub(super) fn choose<'a, S: ViewChangeEvidence>(
    all: &[&'a ViewChange],
    quorum: Quorum,
) -> Option<(Vec<&'a ViewChange>, Selection)> {
    let of = |count: usize| {
        let changes: Vec<Declaration> = all[..count].iter().map(|change| change.declaration()).collect();
        S::select(&changes, quorum).map(|selection| (all[..count].to_vec(), selection))
    };
    of(quorum.quorum()).or_else(|| of(all.len()).filter(|_| S::MORE_HELPS))
}
