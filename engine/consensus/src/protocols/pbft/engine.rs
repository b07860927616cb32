//! The normal case: slots from PRE-PREPARE to execution, and checkpoints. [`view_change`](super) replaces a primary,
//! and `catch_up` repairs losses.

use super::early::{Early, Kept, MAX_EARLY_PER_PRIMARY};
use super::inquiry::Inquiry;
use super::log::{Log, MAX_CLAIMED};
use super::message::{NewView, PbftMessage, PrePrepare, Turn, ViewChange};
use super::recall::{Recall, spoken_up_to};
use super::selection::Selection;
use super::sets::Sets;
use super::view_change_evidence::{Proofs, ViewChangeEvidence};
use crate::config::Config;
use crate::data::batching::Batching;
use crate::data::block_limits::are_named;
use crate::facts::Facts;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::{Admission, Event, Protocol, Recalled};
use crate::recovery::journal::{Record, Standing};
use crate::seam::{Drop, Evidence, Halt, Mark, Timer, To};
use crate::store::Taken;
use crate::voting::tally::Counting;
use quorate_types::{Attachment, Certificate, Digest, Domain, EpochId, Height, ReplicaId, Subject, Time, View, Vote};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

/// Maximum distance, in views, between this replica's view and a vote that it counts. It lets the replica enter a new
/// view slightly later than the others.
const MAX_VIEW_GAP: u64 = 8;

/// State machine of one replica: the slots of its window, and the view change in progress.
pub struct Engine<S> {
    pub(super) genesis: Subject,
    pub(super) log: Log,
    /// Whether the current view is open. If not, this replica has requested it and waits.
    pub(super) active: bool,
    /// Next slot that the primary assigns.
    pub(super) next: Height,
    pub(super) batching: Batching,
    pub(super) ready_since: Option<Time>,
    /// PRE-PREPAREs of views that are not open here yet.
    pub(super) early: Early,
    /// Certificates of PREPAREs from views that are not open here yet.
    pub(super) ahead: Vec<Certificate>,
    /// Last view change of each replica.
    pub(super) changes: BTreeMap<ReplicaId, ViewChange>,
    /// Highest view, ahead of this replica's, that each replica reported to be in or able to join.
    pub(super) seeks: BTreeMap<ReplicaId, View>,
    /// This replica's view change, as cast, until the view opens.
    pub(super) change: Option<Box<ViewChange>>,
    /// Time since which a quorum has requested the current view.
    pub(super) wanted_since: Option<Time>,
    /// Last NEW-VIEW that this replica follows; the current view's, if the view is open.
    pub(super) opening: Option<Box<NewView>>,
    /// Blocks that `opening` carries over.
    pub(super) carried: Option<Selection>,
    /// Peers' claims of executed blocks, in slots that this replica has not executed.
    pub(super) claims: BTreeMap<Height, BTreeMap<ReplicaId, Digest>>,
    /// Last slot that peers have reported as executed, if they have more to report.
    pub(super) reported_up_to: Option<Height>,
    /// Inquiries after a restart or an adopted state.
    pub(super) inquiry: Option<Inquiry>,
    /// Time when this replica last requested the current view.
    pub(super) asked_for_view: Time,
    /// Signed view changes that opened the last view in which this replica took part.
    pub(super) admitted_by: Vec<Vote>,
    pub(super) recall: Recall,
    evidence: PhantomData<S>,
}

/// State machine of the variant with signatures.
pub type PbftEngine = Engine<Proofs>;
/// State machine of the variant for MACs.
pub type PbftMacEngine = Engine<Sets>;

impl<S: ViewChangeEvidence> Engine<S> {
    /// Creates an engine at genesis.
    pub fn new(config: &Config, epoch: &EpochId) -> Self {
        let genesis = Certificate::genesis(epoch);
        Engine {
            genesis: genesis.subject,
            log: Log::new(genesis, config.window),
            active: false,
            next: Height(1),
            batching: Batching::new(config),
            ready_since: None,
            early: Early::default(),
            ahead: Vec::new(),
            changes: BTreeMap::new(),
            seeks: BTreeMap::new(),
            change: None,
            wanted_since: None,
            opening: None,
            carried: None,
            claims: BTreeMap::new(),
            reported_up_to: None,
            inquiry: None,
            asked_for_view: Time(0),
            admitted_by: Vec::new(),
            recall: Recall::default(),
            evidence: PhantomData,
        }
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the number of unexecuted slots with claims by peers.
    pub fn claimed(&self) -> usize {
        self.claims.len()
    }

    /// Returns the number of PRE-PREPAREs that wait for their view to open, and their size in bytes.
    pub fn early(&self) -> (usize, usize) {
        self.early.share(None)
    }

    /// Returns whether the current view is open here.
    pub fn is_active(&self) -> bool {
        self.active
    }

    pub fn primary(&self, view: View, parts: &Parts) -> ReplicaId {
        parts
            .leaders
            .leader(view, &self.genesis, &parts.store.tree)
            .expect("the leader on top of genesis is always known")
    }

    fn admit_pre_prepare(&self, parts: &Parts, from: ReplicaId, message: &PrePrepare) -> Admission {
        let (view, current) = (message.view(), parts.pacemaker.view());
        if message.endorsement.voter != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        let carried = are_named(&message.block.payload, &message.bundles) || bug!(EarlyKept);
        if !message.is_well_formed() || !parts.may_propose(&message.block) || !carried {
            return Admission::Drop(Drop::Malformed);
        }
        if view < current {
            return Admission::Drop(Drop::Stale);
        }
        if view.0 > current.0 + MAX_VIEW_GAP {
            return Admission::Drop(Drop::TooFarAhead);
        }
        if self.primary(view, parts) != from {
            return Admission::Drop(Drop::NotTheLeader);
        }
        match self.outside(message.block.height, parts) {
            Some(why) => Admission::Drop(why),
            None => Admission::Check(Vec::new()),
        }
    }

    /// Returns why messages about a slot are ignored, if it is outside the watermarks.
    fn outside(&self, slot: Height, parts: &Parts) -> Option<Drop> {
        let floor = self.log.low().min(parts.store.committed());
        if slot <= floor {
            Some(Drop::Stale)
        } else if slot > self.log.high() {
            Some(Drop::TooFarAhead)
        } else {
            None
        }
    }

    fn admit_vote(&self, parts: &Parts, from: ReplicaId, vote: &Vote, domain: Domain) -> Admission {
        let Subject { view, height, .. } = vote.subject;
        if vote.voter != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        if vote.subject.domain != domain || vote.attachment != Attachment::None {
            return Admission::Drop(Drop::Malformed);
        }
        let current = parts.pacemaker.view();
        if view < current {
            return Admission::Drop(Drop::Stale);
        }
        if view.0 > current.0 + MAX_VIEW_GAP {
            return Admission::Drop(Drop::TooFarAhead);
        }
        match self.outside(height, parts) {
            Some(why) => Admission::Drop(why),
            None => Admission::Tally(vote.clone()),
        }
    }

    pub(super) fn on_pre_prepare(&mut self, from: ReplicaId, message: Box<PrePrepare>, turn: &mut Turn<'_>) {
        let (slot, digest) = (message.block.height, message.block.digest());
        if message.view() < turn.view() || self.outside(slot, turn.parts).is_some() {
            return turn.out.drop_message(from, Drop::Stale);
        }
        if message.view() > turn.view() || !self.active {
            return self.keep_early(from, message, turn);
        }
        if self.refused_time_of(slot, digest) {
            // It may have been ahead of this replica's clock when it came first.
            return self.try_prepare(slot, turn);
        }
        turn.out.count(message.endorsement.clone());
        let entry = self.log.slot(slot);
        let other = entry.accepted.is_some_and(|accepted| accepted != digest) && !bug!(CarriedReplaced);
        if other || entry.endorsed {
            return turn.out.drop_message(from, Drop::Repeated);
        }
        entry.endorsed = true;
        entry.accepted = Some(digest);
        entry.since.get_or_insert(turn.now);
        take_block(*message, from, turn);
        self.try_prepare(slot, turn);
        self.watch(turn);
    }

    fn keep_early(&mut self, from: ReplicaId, message: Box<PrePrepare>, turn: &mut Turn<'_>) {
        let (second, parts) = (message.endorsement.clone(), &turn.parts);
        match self.early.keep(message, turn.view(), parts.config.batch_bytes) {
            Kept::Waits => {}
            Kept::Repeated => turn.out.drop_message(from, Drop::Repeated),
            Kept::Full => turn.out.drop_message(from, Drop::Overload),
            Kept::Contradicts(first) => {
                turn.out.drop_message(from, Drop::Contradiction);
                turn.out.suspect(Evidence { first: *first, second });
            }
        }
    }

    /// Sends PREPARE for the block that the current view assigned to a slot, once its commands have arrived.
    pub(super) fn try_prepare(&mut self, slot: Height, turn: &mut Turn<'_>) {
        if !self.is_timely(slot, turn) {
            return;
        }
        let Some(entry) = self.log.slots.get_mut(&slot).filter(|entry| self.active && entry.prepare_cast.is_none())
        else {
            return;
        };
        // A block known only through others' votes needs no vote of this replica; the primary may have sent it a
        // different one.
        let given = entry.endorsed || entry.carried || entry.null;
        let Some(digest) = entry.accepted.filter(|_| given) else { return };
        let store = &turn.parts.store;
        let here = match slot <= store.committed() {
            true => store.tree.committed_at(slot) == Some(digest),
            false => (entry.carried && S::CARRIED_IS_HELD) || store.tree.contains(&digest),
        };
        let view = turn.parts.pacemaker.view();
        if here && let Some(ballot) = turn.parts.safety.prepare(view, slot, digest) {
            entry.prepare_cast = Some(digest);
            if S::SHOWS_VOTES {
                entry.note_vote(ballot.subject());
            }
            turn.cast(&ballot, To::All, PbftMessage::Prepare);
        }
    }

    /// Handles a quorum of PREPAREs.
    pub(super) fn on_prepared(&mut self, certificate: Certificate, turn: &mut Turn<'_>) {
        let Subject { view, height: slot, digest, .. } = certificate.subject;
        if view > turn.view() || (view == turn.view() && !self.active) {
            return self.ahead.push(certificate);
        }
        if view < turn.view() || self.outside(slot, turn.parts).is_some() {
            return;
        }
        self.adopt(slot, digest, certificate.signers.iter().next(), turn);
        let entry = self.log.slot(slot);
        let certificate = S::keep(certificate);
        let ballot = turn.parts.safety.commit(&certificate);
        if let Some(ballot) = ballot {
            // A claim needs the record of a COMMIT.
            (entry.prepared, entry.commit_cast) = (Some(certificate), Some(digest));
            turn.cast_unsigned(&ballot, To::All, PbftMessage::Commit);
        }
        self.watch(turn);
    }

    /// Accepts a block for which a quorum voted, even if the primary sent this replica a different one.
    pub(super) fn adopt(&mut self, slot: Height, digest: Digest, source: Option<ReplicaId>, turn: &mut Turn<'_>) {
        self.accept(slot, digest, turn);
        turn.parts.store.want_block(turn.now, digest, slot, source.unwrap_or(turn.parts.me));
    }

    /// Accepts the block that a new view carries over. If only claims say that it was prepared, its bundles or their
    /// certificates are required, as for a proposal.
    pub(super) fn adopt_carried(&mut self, slot: Height, digest: Digest, source: ReplicaId, turn: &mut Turn<'_>) {
        if S::CARRIED_IS_HELD {
            return self.adopt(slot, digest, Some(source), turn);
        }
        self.accept(slot, digest, turn);
        turn.parts.store.want_claimed_block(turn.now, digest, slot, source);
    }

    fn accept(&mut self, slot: Height, digest: Digest, turn: &mut Turn<'_>) {
        let entry = self.log.slot(slot);
        if let Some(other) = entry.accepted.replace(digest).filter(|other| *other != digest) {
            turn.parts.store.set_aside(&other);
        }
        entry.since.get_or_insert(turn.now);
        turn.parts.store.take_up(&digest);
    }

    /// Decides the block of a slot, permanently.
    pub(super) fn decide(&mut self, slot: Height, digest: Digest, view: View, turn: &mut Turn<'_>) {
        if slot <= turn.committed() || self.log.decided.contains_key(&slot) {
            return;
        }
        self.log.decided.insert(slot, digest);
        turn.out.mark(Mark::Decided { view, height: slot, digest });
        let source = self.primary(view, turn.parts);
        self.adopt(slot, digest, Some(source), turn);
        self.try_execute(turn);
    }

    /// Executes decided blocks in slot order.
    pub(super) fn try_execute(&mut self, turn: &mut Turn<'_>) {
        let (before, patience) = (turn.committed(), turn.parts.pacemaker.duration());
        while let Some(digest) = self.log.decided.get(&turn.committed().next()).copied() {
            let slot = turn.committed().next();
            let Some(block) = turn.parts.store.tree.get(&digest).cloned() else { break };
            if !turn.parts.store.is_deliverable(&block) {
                break;
            }
            let pool = &turn.parts.store.pool;
            let fresh = block.payload.iter().any(|bundle| !pool.is_executed(bundle));
            if !turn.commit(&digest) {
                turn.out.halt(Halt::Conflict { height: slot });
                break;
            }
            self.log.decided.remove(&slot);
            if fresh {
                match bug!(ClockNotRestarted) {
                    true => turn.parts.pacemaker.on_progress(),
                    false => turn.parts.pacemaker.on_achievement(turn.now),
                }
            }
            self.batching.on_certificate(turn.now, slot.0, block.payload.len());
        }
        if turn.committed() > before {
            self.claims = self.claims.split_off(&turn.committed().next());
            if turn.parts.pacemaker.duration() < patience && self.active {
                turn.out.arm(Timer::View, turn.parts.pacemaker.duration() / 2);
            }
            self.judge_primary(before, turn);
            if before < self.log.low() {
                self.truncate(turn);
            }
            self.ask_for_more(turn);
            self.work(turn);
        }
    }

    /// Handles a peer's proof that a quorum certified the state after a slot.
    pub(super) fn stabilise(&mut self, certificate: Certificate, turn: &mut Turn<'_>) {
        turn.stabilise(certificate);
        self.follow_stable(turn);
    }

    /// Moves the window up to the newest stable checkpoint.
    pub(super) fn follow_stable(&mut self, turn: &mut Turn<'_>) {
        let stable = turn.parts.checkpoints.stable();
        let height = stable.subject.height;
        if height > self.log.low() {
            self.log.stable = stable.clone();
            self.next = self.next.max(height.next());
            self.truncate(turn);
        }
    }

    /// Resumes from a state fetched from peers: decided blocks up to its height need no execution.
    fn on_adopted(&mut self, turn: &mut Turn<'_>) {
        let committed = turn.committed();
        self.follow_stable(turn);
        self.log.decided = self.log.decided.split_off(&committed.next());
        self.claims = self.claims.split_off(&committed.next());
        self.reported_up_to = None;
        self.next = self.next.max(committed.next());
        self.truncate(turn);
        for (slot, digest) in self.log.decided.clone() {
            turn.parts.store.fetch_block(turn.now, digest, slot, turn.parts.me);
        }
        self.try_execute(turn);
        self.inquire(turn);
    }

    pub(super) fn truncate(&mut self, turn: &mut Turn<'_>) {
        let floor = self.log.truncate(turn.committed());
        turn.parts.tally.forget_up_to(floor);
        turn.parts.safety.settle(floor);
    }

    /// Checks whether there is anything to order, and starts the view timer if there was nothing before.
    pub(super) fn watch(&mut self, turn: &mut Turn<'_>) {
        if self.active {
            turn.parts.fairness.set_leader(turn.now, self.primary(turn.view(), turn.parts));
        }
        turn.parts.fairness.watch(turn.now, &mut turn.parts.store.pool);
        let waiting = turn.parts.store.pool.pending_commands() > 0;
        // If a decided slot waits for bundles that this replica has yet to fetch, the primary is not at fault.
        let committed = turn.committed();
        let decided = if turn.parts.store.is_stuck() { self.log.decided_up_to(committed) } else { committed };
        let working = waiting || self.log.is_open(decided) || self.is_view_change_on(turn.parts);
        if turn.parts.pacemaker.set_working(turn.now, working) {
            let (pacemaker, asked) = (&turn.parts.pacemaker, turn.now.since(self.asked_for_view));
            let first = match self.active {
                true => pacemaker.duration() / 2,
                false => pacemaker.retransmission().saturating_sub(asked),
            };
            turn.out.arm(Timer::View, first);
        }
    }

    /// Handles a block whose commands are complete.
    fn on_whole(&mut self, digest: Digest, turn: &mut Turn<'_>) {
        let Some(slot) = turn.parts.store.tree.get(&digest).map(|block| block.height) else { return };
        let decided = self.log.decided.get(&slot).copied();
        let chosen = decided.or(self.log.slots.get(&slot).and_then(|entry| entry.accepted));
        if chosen != Some(digest) {
            return turn.parts.store.set_aside(&digest);
        }
        self.try_prepare(slot, turn);
        self.try_execute(turn);
        self.watch(turn);
    }
}

impl<S: ViewChangeEvidence> Protocol for Engine<S> {
    type Message = PbftMessage;

    const FACTS: Facts = S::FACTS;

    fn admit(&self, parts: &Parts, from: ReplicaId, message: &PbftMessage) -> Admission {
        match message {
            PbftMessage::PrePrepare(message) => self.admit_pre_prepare(parts, from, message),
            PbftMessage::Prepare(vote) => self.admit_vote(parts, from, vote, Domain::Prepare),
            PbftMessage::Commit(vote) => self.admit_vote(parts, from, vote, Domain::Commit),
            PbftMessage::ViewChange(message) => self.admit_view_change(parts, from, message),
            PbftMessage::NewView(message) => self.admit_new_view(parts, from, message),
            PbftMessage::Status { .. } => Admission::Check(Vec::new()),
            PbftMessage::Decided { checkpoint, .. } => self.admit_decided(checkpoint.as_deref()),
        }
    }

    fn leader(&self, parts: &Parts) -> Option<ReplicaId> {
        let view = parts.pacemaker.view();
        (view > self.genesis.view).then(|| self.primary(view, parts))
    }

    fn patience(&self, now: Time, parts: &Parts) -> Option<Duration> {
        self.batching.patience(now).filter(|_| self.leader(parts) != Some(parts.me))
    }

    fn handle(&mut self, event: Event<PbftMessage>, turn: &mut Turn<'_>) {
        match event {
            Event::Start => self.start(turn),
            // Peers send more in answer to a status than their standings contain.
            Event::Shown { .. } => self.inquire(turn),
            Event::Message { from, message } => match message {
                PbftMessage::PrePrepare(message) => self.on_pre_prepare(from, message, turn),
                PbftMessage::ViewChange(message) => self.on_view_change(from, message, turn),
                PbftMessage::NewView(message) => self.on_new_view(from, message, turn),
                PbftMessage::Status { view, committed } => self.on_status(from, view, committed, turn),
                PbftMessage::Decided { above, digests, checkpoint } => {
                    self.on_decided(from, above, digests, checkpoint, turn)
                }
                PbftMessage::Prepare(_) | PbftMessage::Commit(_) => unreachable!("votes are admitted to the tally"),
            },
            Event::Certified(certificate) => self.on_prepared(certificate, turn),
            Event::Stable => {
                self.follow_stable(turn);
                self.work(turn);
            }
            Event::Adopted => self.on_adopted(turn),
            Event::Agreed(Subject { view, height, digest, .. }) => self.decide(height, digest, view, turn),
            Event::Supplied => self.try_execute(turn),
            Event::Timeout(Timer::View) => self.on_view_alarm(turn),
            Event::Timeout(_) => self.work(turn),
            Event::Work(commands) => {
                self.batching.on_arrival(turn.now, commands);
                self.work(turn);
            }
            Event::Whole(digest) => self.on_whole(digest, turn),
        }
    }

    /// Requests the view, which needs no evidence; opening it still takes a quorum.
    fn force_view(&mut self, view: View, turn: &mut Turn<'_>) {
        self.change_view(view, turn);
    }

    fn recall(&mut self, recalled: Recalled<'_, PbftMessage>, parts: &mut Parts) {
        self.take_recalled(recalled, parts);
    }

    fn summary(&self, parts: &Parts) -> Vec<Record> {
        self.summary_records(parts)
    }

    /// A slot that is not stable may be proposed again after a view change.
    fn settled(&self, parts: &Parts) -> Height {
        self.log.low().min(parts.store.committed())
    }

    fn standing(&self, parts: &Parts) -> Standing {
        self.asked_for(parts)
    }

    fn spoken_up_to(&self, standing: &Standing, parts: &Parts) -> Option<View> {
        spoken_up_to(standing, parts)
    }

    fn is_decided(&self, bundle: &Digest, parts: &Parts) -> bool {
        let waiting = parts.store.blocks_waiting_for(bundle);
        waiting.iter().any(|block| self.log.decided.values().any(|decided| decided == block))
    }

    fn invariants(&self, parts: &Parts) {
        self.batching.invariants();
        let (low, high, committed) = (self.log.low(), self.log.high(), parts.store.committed());
        let first = self.log.slots.first_key_value().map(|(slot, _)| *slot);
        assert!(
            first.is_none_or(|first| first > low.min(committed)),
            "the log has no slot that is stable and executed"
        );
        assert!(
            self.log.decided.keys().all(|slot| *slot > committed),
            "a decided slot above the committed height awaits execution"
        );
        assert!(self.next > low, "a primary assigns slots above the low watermark");
        assert!(!self.active || self.change.is_none(), "a replica that has asked for a view has no open view");
        let (early, bound) = (self.early().0, MAX_EARLY_PER_PRIMARY * parts.quorum.replicas());
        assert!(early <= bound || bug!(EarlyKept), "early PRE-PREPAREs are bounded");
        assert!(self.changes.len() <= parts.quorum.replicas(), "at most one view change is kept for each replica");
        let last = self.log.slots.last_key_value().map(|(slot, _)| *slot);
        assert!(last.is_none_or(|last| last <= high.max(Height(committed.0 + MAX_CLAIMED))), "slots are bounded");
    }

    fn counting(domain: Domain) -> Counting {
        counting(domain)
    }
}

/// Returns how votes of a domain are counted.
pub(super) fn counting(domain: Domain) -> Counting {
    match domain {
        Domain::Prepare => Counting { by_height: true, certified: true },
        Domain::Commit => Counting { by_height: true, certified: false },
        _ => Counting::default(),
    }
}

/// Adds the block of a PRE-PREPARE and the bundles that came with it to the store.
pub(super) fn take_block(message: PrePrepare, from: ReplicaId, turn: &mut Turn<'_>) {
    let digest = message.block.digest();
    for bundle in &message.bundles {
        turn.supply(bundle.clone());
    }
    match turn.offer(message.block, from) {
        Taken::Overload => turn.out.drop_message(from, Drop::Overload),
        Taken::TooLarge => turn.out.drop_message(from, Drop::TooLarge),
        Taken::Mislinked => turn.out.drop_message(from, Drop::Malformed),
        Taken::Whole | Taken::Waiting | Taken::Late => {}
    }
    turn.parts.store.take_up(&digest);
}
