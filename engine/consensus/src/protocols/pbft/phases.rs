//! PBFT's three phases alone, as the paper on the loss model counts them: Loruenser, Rainer and Wohner, "Towards a
//! performance model for Byzantine fault tolerant (storage) services", section II.B. For measurements only.
//!
//! A slot is decided by the messages that arrive, or it fails; nothing is sent again. Differences from the
//! [whole protocol](super::engine):
//!
//! - There is one view, and there are no checkpoints: replicas execute different commands in the end.
//! - Slots are independent. A replica that decides a slot executes it at once. It gives up the undecided slots before
//!   it and puts null blocks in their places, so that heights have no gaps. A primary whose pipeline is full gives up
//!   its oldest undecided slot once that is `view_timeout_ms` old.
//! - The commands of a slot that is given up are forgotten, not proposed again.
//! - A replica without the PRE-PREPARE takes no part in a slot, even if it sees that the others prepare it.
//!
//! One thing differs from the paper, as in the whole protocol: the primary's PRE-PREPARE is its PREPARE, so a backup
//! has both or neither.

use super::engine::{counting, take_block};
use super::message::{PbftMessage, PrePrepare, Turn};
use super::primary::assign;
use crate::config::{Config, MAX_WINDOW};
use crate::data::batching::{Batching, Decision, Situation};
use crate::data::block_limits::are_named;
use crate::facts::{Bond, Facts, Shape};
use crate::protocols::parts::Parts;
use crate::protocols::protocol::{Admission, Event, Protocol, Recalled};
use crate::recovery::journal::{Record, Standing};
use crate::seam::{Drop, Halt, Mark, Timer, To};
use crate::voting::tally::Counting;
use quorate_types::{Attachment, Block, Certificate, Digest, Domain, EpochId, Height, ReplicaId, Subject};
use quorate_types::{Time, View, Vote};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// There is no view change, so every message is of this view.
const VIEW: View = View(1);

/// State of one slot.
#[derive(Default)]
struct Slot {
    /// Block that the primary assigned.
    accepted: Option<Digest>,
    /// Whether the primary's PRE-PREPARE has arrived.
    endorsed: bool,
    /// Time when this replica first learned of the slot's block.
    since: Option<Time>,
    /// Whether this replica sent PREPARE, or PRE-PREPARE as the primary.
    prepare_cast: bool,
    /// Whether a quorum sent PREPARE for the accepted block.
    prepared: bool,
    /// Quorum of PREPAREs that arrived before the PRE-PREPARE.
    certified_early: Option<Certificate>,
    /// Block that a quorum sent COMMIT for.
    agreed: Option<Digest>,
    /// Whether the accepted block is decided, but not executed.
    decided: bool,
}

/// State machine of one replica.
pub struct PhasesEngine {
    genesis: Subject,
    /// Slots above the last one that is executed or given up.
    slots: BTreeMap<Height, Slot>,
    window: u64,
    pipeline: u64,
    /// Next slot that the primary assigns.
    next: Height,
    batching: Batching,
    ready_since: Option<Time>,
}

impl PhasesEngine {
    /// Creates an engine at genesis.
    pub fn new(config: &Config, epoch: &EpochId) -> Self {
        PhasesEngine {
            genesis: Certificate::genesis(epoch).subject,
            slots: BTreeMap::new(),
            window: config.window,
            pipeline: config.pipeline,
            next: Height(1),
            batching: Batching::new(config),
            ready_since: None,
        }
    }

    fn primary(&self, parts: &Parts) -> ReplicaId {
        let leader = parts.leaders.leader(VIEW, &self.genesis, &parts.store.tree);
        leader.expect("the leader on top of genesis is always known")
    }

    /// Returns why messages of a view, about slots up to a distance above the last finished one, are ignored.
    fn outside(view: View, slot: Height, reach: u64, parts: &Parts) -> Option<Drop> {
        let committed = parts.store.committed();
        if view < VIEW || slot <= committed {
            Some(Drop::Stale)
        } else if view > VIEW || slot.0 > committed.0.saturating_add(reach) {
            Some(Drop::TooFarAhead)
        } else {
            None
        }
    }

    /// Admits slots beyond the window, too: a replica that has lost all messages of the slots before has to hear of
    /// later ones.
    fn admit_pre_prepare(&self, parts: &Parts, from: ReplicaId, message: &PrePrepare) -> Admission {
        if message.endorsement.voter != from {
            return Admission::Drop(Drop::NotTheSender);
        }
        let carried = are_named(&message.block.payload, &message.bundles);
        if !message.is_well_formed() || !parts.may_propose(&message.block) || !carried {
            return Admission::Drop(Drop::Malformed);
        }
        if self.primary(parts) != from {
            return Admission::Drop(Drop::NotTheLeader);
        }
        match Self::outside(message.view(), message.block.height, MAX_WINDOW as u64, parts) {
            Some(why) => Admission::Drop(why),
            None => Admission::Check(Vec::new()),
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
        match Self::outside(view, height, self.window, parts) {
            Some(why) => Admission::Drop(why),
            None => Admission::Tally(vote.clone()),
        }
    }

    /// Enters the only view. A replica that restarts takes no slot for free in which it has voted.
    fn start(&mut self, turn: &mut Turn<'_>) {
        turn.parts.pacemaker.enter(turn.now, VIEW, true);
        let (committed, leads) = (turn.committed(), self.primary(turn.parts) == turn.parts.me);
        for (Subject { domain, height, digest, .. }, _) in turn.parts.safety.votes_on_slots() {
            if *height > committed {
                let entry = self.slots.entry(*height).or_default();
                (entry.accepted, entry.since) = (Some(*digest), Some(turn.now));
                if *domain != Domain::Commit {
                    (entry.prepare_cast, entry.endorsed) = (true, !leads);
                }
            }
        }
        let open: Vec<_> = turn.parts.store.tree.journaled_above_commit().cloned().collect();
        for block in open {
            if self.slots.get(&block.height).and_then(|entry| entry.accepted) != Some(block.digest()) {
                turn.parts.store.set_aside(&block.digest());
            }
        }
        let last = self.slots.last_key_value().map_or(committed, |(slot, _)| *slot);
        self.next = self.next.max(last.next());
        turn.out.mark(Mark::EnteredView { view: VIEW, leader: Some(self.primary(turn.parts)) });
        self.work(turn);
    }

    /// Assigns blocks to slots, if this replica is the primary, the pipeline and the window have room, and there is
    /// enough to propose.
    fn work(&mut self, turn: &mut Turn<'_>) {
        if turn.parts.safety.abstains() >= VIEW || self.primary(turn.parts) != turn.parts.me {
            return;
        }
        while self.next.0 <= turn.committed().0.saturating_add(self.window) {
            let is_full = self.next.0 - turn.committed().0 > self.pipeline;
            if is_full && (turn.parts.store.pool.pending_commands() == 0 || !self.make_room(turn)) {
                return;
            }
            let situation = Situation {
                pending: turn.parts.store.pool.pending_commands(),
                pending_bytes: turn.parts.store.pool.pending_bytes(),
                uncommitted: false,
                ready_since: *self.ready_since.get_or_insert(turn.now),
            };
            match self.batching.decide(turn.now, situation) {
                Decision::Propose | Decision::Confirm => {
                    let vote = assign(self.next, &mut self.batching, turn);
                    let entry = self.slots.entry(self.next).or_default();
                    (entry.accepted, entry.prepare_cast, entry.since) = (Some(vote.digest), true, Some(turn.now));
                    self.next = self.next.next();
                    self.ready_since = None;
                }
                Decision::Wait(time) => return turn.out.arm(Timer::Batch, time),
                Decision::Rest => {
                    self.ready_since = None;
                    return;
                }
            }
        }
    }

    /// Makes room in a full pipeline by giving up the oldest undecided slot, if its time is over. Otherwise, sets the
    /// timer to that time and returns false.
    fn make_room(&mut self, turn: &mut Turn<'_>) -> bool {
        let oldest = turn.committed().next();
        let timeout = turn.parts.config.view_timeout();
        let since = self.slots.get(&oldest).and_then(|slot| slot.since);
        let left = timeout.saturating_sub(since.map_or(timeout, |since| turn.now.since(since)));
        if left.is_zero() {
            self.give_up_before(oldest.next(), turn);
            return true;
        }
        turn.out.arm(Timer::View, left);
        false
    }

    /// Gives up all undecided slots before this one.
    fn give_up_before(&mut self, slot: Height, turn: &mut Turn<'_>) {
        let before = turn.committed();
        while turn.committed().next() < slot {
            let failed = turn.committed().next();
            let assigned = self.slots.get(&failed).and_then(|entry| entry.accepted);
            let block = assigned.and_then(|digest| turn.parts.store.tree.get(&digest)).cloned();
            let null = Arc::new(Block::of_slot(VIEW, self.primary(turn.parts), failed, Vec::new(), 0));
            let digest = null.digest();
            turn.offer(null, turn.parts.me);
            assert!(turn.commit(&digest), "a null block can follow any block");
            let forgotten: Vec<Digest> = block.map(|block| block.payload.clone()).unwrap_or_default();
            forgotten.iter().for_each(|bundle| turn.parts.store.pool.forget(bundle));
        }
        if turn.committed() > before {
            self.pass(turn);
        }
    }

    /// Forgets the slots up to the last executed one.
    fn pass(&mut self, turn: &mut Turn<'_>) {
        let committed = turn.committed();
        self.slots = self.slots.split_off(&committed.next());
        self.next = self.next.max(committed.next());
        turn.parts.tally.forget_up_to(committed);
        turn.parts.safety.settle(committed);
    }

    fn on_pre_prepare(&mut self, from: ReplicaId, message: PrePrepare, turn: &mut Turn<'_>) {
        let (slot, digest) = (message.block.height, message.block.digest());
        // The primary is done with slots that lie a pipeline behind this one. Another pipeline is for messages on
        // their way.
        let behind = (2 * self.pipeline).min(self.window - 1);
        self.give_up_before(Height(slot.0.saturating_sub(behind)), turn);
        if Self::outside(VIEW, slot, self.window, turn.parts).is_some() {
            return turn.out.drop_message(from, Drop::Stale);
        }
        turn.out.count(message.endorsement.clone());
        let entry = self.slots.entry(slot).or_default();
        if entry.accepted.is_some_and(|accepted| accepted != digest) || entry.endorsed {
            return turn.out.drop_message(from, Drop::Repeated);
        }
        (entry.endorsed, entry.accepted) = (true, Some(digest));
        entry.since.get_or_insert(turn.now);
        let early = entry.certified_early.take();
        take_block(message, from, turn);
        self.try_prepare(slot, turn);
        if let Some(certificate) = early {
            self.on_prepared(certificate, turn);
        }
    }

    /// Sends PREPARE for the block that the primary assigned to a slot, once its commands have arrived.
    fn try_prepare(&mut self, slot: Height, turn: &mut Turn<'_>) {
        let Some(entry) = self.slots.get_mut(&slot).filter(|entry| entry.endorsed && !entry.prepare_cast) else {
            return;
        };
        let block = entry.accepted.and_then(|digest| turn.parts.store.tree.get(&digest).cloned());
        let Some(block) = block else { return };
        if let Err(why) = turn.judge_time(&block) {
            // As if the PRE-PREPARE had been lost.
            entry.endorsed = false;
            return turn.out.drop_message(block.author, why);
        }
        if let Some(ballot) = turn.parts.safety.prepare(VIEW, slot, block.digest()) {
            entry.prepare_cast = true;
            turn.cast(&ballot, To::All, PbftMessage::Prepare);
        }
    }

    /// Handles a quorum of PREPAREs.
    fn on_prepared(&mut self, certificate: Certificate, turn: &mut Turn<'_>) {
        let Subject { view, height: slot, digest, .. } = certificate.subject;
        if Self::outside(view, slot, self.window, turn.parts).is_some() {
            return;
        }
        let entry = self.slots.entry(slot).or_default();
        if entry.accepted != Some(digest) {
            entry.certified_early = Some(certificate);
            return;
        }
        entry.prepared = true;
        if let Some(ballot) = turn.parts.safety.commit(&certificate) {
            turn.cast_unsigned(&ballot, To::All, PbftMessage::Commit);
        }
        self.try_decide(slot, turn);
    }

    /// Handles a quorum of COMMITs.
    fn on_agreed(&mut self, subject: Subject, turn: &mut Turn<'_>) {
        if subject.height > turn.committed() {
            self.slots.entry(subject.height).or_default().agreed = Some(subject.digest);
            self.try_decide(subject.height, turn);
        }
    }

    /// Decides a slot with a quorum of COMMITs, if this replica has seen its block prepared, too.
    fn try_decide(&mut self, slot: Height, turn: &mut Turn<'_>) {
        let Some(entry) = self.slots.get_mut(&slot) else { return };
        let Some(digest) = entry.agreed.filter(|agreed| entry.prepared && entry.accepted == Some(*agreed)) else {
            return;
        };
        if !std::mem::replace(&mut entry.decided, true) {
            turn.out.mark(Mark::Decided { view: VIEW, height: slot, digest });
            self.give_up_before(slot, turn);
            self.try_execute(turn);
        }
    }

    /// Executes the decided block once all slots before it are executed or given up.
    fn try_execute(&mut self, turn: &mut Turn<'_>) {
        let slot = turn.committed().next();
        let Some(digest) = self.slots.get(&slot).filter(|entry| entry.decided).and_then(|entry| entry.accepted) else {
            return;
        };
        let Some(bundles) = turn.parts.store.tree.get(&digest).map(|block| block.payload.len()) else { return };
        if !turn.commit(&digest) {
            return turn.out.halt(Halt::Conflict { height: slot });
        }
        self.batching.on_certificate(turn.now, slot.0, bundles);
        self.pass(turn);
        self.work(turn);
    }

    /// Handles a block whose commands are complete.
    fn on_whole(&mut self, digest: Digest, turn: &mut Turn<'_>) {
        let Some(slot) = turn.parts.store.tree.get(&digest).map(|block| block.height) else { return };
        if self.slots.get(&slot).and_then(|entry| entry.accepted) != Some(digest) {
            return turn.parts.store.set_aside(&digest);
        }
        self.try_prepare(slot, turn);
        self.try_execute(turn);
    }
}

impl Protocol for PhasesEngine {
    type Message = PbftMessage;

    const FACTS: Facts = Facts {
        name: "pbft-phases",
        title: "PBFT's three phases",
        essence: "The three phases of PBFT and nothing else, to measure what lost messages do to them: no view change, \
                  no checkpoint, nothing sent again. A slot that is not decided has failed, and replicas execute \
                  different commands.",
        shape: Shape::Slots,
        bound_by: Bond::Slot,
        timeouts_carry_certificates: false,
        optimistic_proposals: false,
        awaited_delays: 0,
        shows_votes: true,
        repairs_losses: false,
    };

    fn admit(&self, parts: &Parts, from: ReplicaId, message: &PbftMessage) -> Admission {
        match message {
            PbftMessage::PrePrepare(message) => self.admit_pre_prepare(parts, from, message),
            PbftMessage::Prepare(vote) => self.admit_vote(parts, from, vote, Domain::Prepare),
            PbftMessage::Commit(vote) => self.admit_vote(parts, from, vote, Domain::Commit),
            _ => Admission::Drop(Drop::Malformed),
        }
    }

    fn leader(&self, parts: &Parts) -> Option<ReplicaId> {
        (parts.pacemaker.view() == VIEW).then(|| self.primary(parts))
    }

    fn patience(&self, now: Time, parts: &Parts) -> Option<Duration> {
        self.batching.patience(now).filter(|_| self.leader(parts) != Some(parts.me))
    }

    fn handle(&mut self, event: Event<PbftMessage>, turn: &mut Turn<'_>) {
        match event {
            Event::Start => self.start(turn),
            Event::Message { from, message: PbftMessage::PrePrepare(message) } => {
                self.on_pre_prepare(from, *message, turn)
            }
            Event::Message { .. } => unreachable!("votes are admitted to the tally, and nothing else is admitted"),
            Event::Certified(certificate) => self.on_prepared(certificate, turn),
            Event::Agreed(subject) => self.on_agreed(subject, turn),
            Event::Supplied => self.try_execute(turn),
            Event::Timeout(_) => self.work(turn),
            Event::Work(commands) => {
                self.batching.on_arrival(turn.now, commands);
                self.work(turn);
            }
            Event::Whole(digest) => self.on_whole(digest, turn),
            Event::Shown { .. } | Event::Stable | Event::Adopted => {}
        }
    }

    /// There is no other view.
    fn force_view(&mut self, _view: View, _turn: &mut Turn<'_>) {}

    fn recall(&mut self, _recalled: Recalled<'_, PbftMessage>, _parts: &mut Parts) {}

    fn summary(&self, _parts: &Parts) -> Vec<Record> {
        Vec::new()
    }

    fn standing(&self, _parts: &Parts) -> Standing {
        Standing::default()
    }

    fn spoken_up_to(&self, _standing: &Standing, _parts: &Parts) -> Option<View> {
        Some(VIEW)
    }

    fn invariants(&self, parts: &Parts) {
        self.batching.invariants();
        let committed = parts.store.committed();
        let first = self.slots.first_key_value().map(|(slot, _)| *slot);
        assert!(first.is_none_or(|first| first > committed), "no slot is kept that is executed or given up");
        assert!(self.next > committed, "a primary assigns slots above the last executed one");
        let last = self.slots.last_key_value().map_or(Height(0), |(slot, _)| *slot);
        assert!(last.0 <= committed.0.saturating_add(self.window), "slots are bounded");
    }

    fn counting(domain: Domain) -> Counting {
        counting(domain)
    }
}
