//! Output of a protocol. A statement becomes a journal record and a message that waits for it.

use crate::data::pool::{MAX_RELAYED_BUNDLES, Need};
use crate::data::store::Taken;
use crate::protocols::parts::Parts;
use crate::recovery::checkpoints::Meaning;
use crate::recovery::journal::{BUNDLES_RECORD_BYTES, Record};
use crate::seam::{Action, Drop, Envelope, Evidence, Halt, Mark, Message, RecordId, Timer, To};
use crate::voting::fairness::Finding;
use crate::voting::safety::Ballot;
use bytes::Bytes;
use quorate_types::{Block, Bundle, Certificate, Digest, Domain, Encoder, Height, ReplicaId, Time, View, Vote};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Collector of a protocol's actions during a step.
pub struct Outbox<M> {
    pub(crate) actions: Vec<Action<M>>,
    pub(crate) votes: Vec<Vote>,
    pub(crate) suspects: Vec<Evidence>,
    pub(crate) whole: Vec<Digest>,
    pub(crate) dropped: BTreeMap<Drop, u64>,
    pub(crate) records: u64,
    /// Record of the last statement.
    promised: Option<RecordId>,
    /// Last view in which this replica may propose before the proposal's own record is durable, and the record that
    /// must be durable instead.
    reservation: Option<(View, RecordId)>,
}

impl<M: Message> Outbox<M> {
    /// Creates an empty outbox for an empty journal.
    pub(crate) fn new() -> Outbox<M> {
        Outbox {
            actions: Vec::new(),
            votes: Vec::new(),
            suspects: Vec::new(),
            whole: Vec::new(),
            dropped: BTreeMap::new(),
            records: 0,
            promised: None,
            reservation: None,
        }
    }

    /// Sends a message that waits for no record.
    pub fn send(&mut self, to: To, message: M) {
        self.actions.push(Action::Send { to, message: Envelope::Protocol(message), after: None, sign: false });
    }

    /// Appends a record to the journal, ahead of every later statement.
    pub fn persist(&mut self, record: Record) -> RecordId {
        self.records += 1;
        let id = RecordId(self.records);
        self.note(id, &record);
        self.actions.push(Action::Persist { id, record });
        id
    }

    /// Notes a record that is in the journal, or will be.
    pub(crate) fn note(&mut self, id: RecordId, record: &Record) {
        if let Record::Promise(promise) = record {
            self.promised = Some(id);
            let known = self.reservation.map(|(view, _)| view);
            if let Some(view) = promise.reserves().filter(|view| known < Some(*view)) {
                self.reservation = Some((view, id));
            }
        }
    }

    /// Drops the reservation, because a summary may cut off its record; the records that follow renew it.
    pub(crate) fn forget_reservation(&mut self) {
        self.reservation = None;
    }

    /// Journals a block with its bundles, after any of its ancestors that are not journaled yet.
    pub fn keep_block(&mut self, parts: &mut Parts, digest: &Digest) {
        for block in parts.store.tree.take_unjournaled(digest) {
            self.persist_block(parts, block);
        }
    }

    pub(crate) fn persist_block(&mut self, parts: &Parts, block: Arc<Block>) {
        let (mut bundles, mut bytes) = (Vec::with_capacity(block.payload.len()), 0);
        for digest in &block.payload {
            let bundle = parts.store.pool.get(digest).expect("a block's bundles are kept as long as the block");
            let size = bundle.body().len();
            if bytes + size > BUNDLES_RECORD_BYTES && !bundles.is_empty() {
                self.persist(Record::Bundles(std::mem::take(&mut bundles)));
                bytes = 0;
            }
            bytes += size;
            bundles.push(bundle.clone());
        }
        if !bundles.is_empty() {
            self.persist(Record::Bundles(bundles));
        }
        self.persist(Record::Block(block));
    }

    /// Journals a message that may have to be sent again.
    pub fn keep_message(&mut self, message: &M) {
        let mut out = Encoder::with_capacity(512);
        message.encode(&mut out);
        self.persist(Record::Message(out.finish()));
    }

    /// Casts a ballot: makes its promise and the block it is on durable, signs the vote, wraps it in a message and
    /// sends it, in this order.
    pub fn cast(&mut self, parts: &mut Parts, ballot: &Ballot, to: To, wrap: impl FnOnce(Vote) -> M) {
        self.cast_in_envelope(parts, ballot, to, |vote| Envelope::Protocol(wrap(vote)));
    }

    /// Casts a ballot whose vote is not a message of the protocol.
    pub(crate) fn cast_in_envelope(
        &mut self,
        parts: &mut Parts,
        ballot: &Ballot,
        to: To,
        wrap: impl FnOnce(Vote) -> Envelope<M>,
    ) {
        self.keep_block(parts, &ballot.subject().digest);
        let after = self.persist(Record::Promise(parts.safety.promise(ballot)));
        let message = wrap(ballot.to_vote(parts.me));
        self.actions.push(Action::Send { to, message, after: Some(after), sign: true });
    }

    /// Casts the ballot of a proposal to all. The proposal need not wait for its own record if this replica's statement
    /// in the previous view is durable, because that reserves the view; see
    /// [`Promise::reserves`](crate::voting::safety::Promise::reserves). A block then waits for the disks of its voters, but not
    /// for its proposer's first.
    pub fn cast_proposal(&mut self, parts: &mut Parts, ballot: &Ballot, wrap: impl FnOnce(Vote) -> M) {
        let reservation = self.reservation.filter(|(view, _)| *view == ballot.subject().view);
        self.cast(parts, ballot, To::All, wrap);
        if let (Some((_, record)), Some(Action::Send { after, .. })) = (reservation, self.actions.last_mut()) {
            *after = after.map(|own| own.min(record));
        }
    }

    /// Casts a ballot whose vote needs no signature, because the channel authenticates its sender to all recipients.
    pub fn cast_unsigned(&mut self, parts: &mut Parts, ballot: &Ballot, to: To, wrap: impl FnOnce(Vote) -> M) {
        self.cast(parts, ballot, to, wrap);
        if let Some(Action::Send { sign, .. }) = self.actions.last_mut() {
            *sign = false;
        }
    }

    /// Repeats the last cast `times` times to the others, for links that lose messages.
    pub fn repeat(&mut self, times: usize) {
        let Some(Action::Send { message, after, sign, .. }) = self.actions.last().cloned() else {
            panic!("what is repeated was cast just before");
        };
        let again = Action::Send { to: To::Others, message, after, sign };
        self.actions.extend(std::iter::repeat_n(again, times));
    }

    /// Sends an earlier statement again, signed. Waits for the last statement's record, in case the earlier one is not
    /// durable yet.
    pub fn recast(&mut self, to: To, message: M) {
        self.actions.push(Action::Send { to, message: Envelope::Protocol(message), after: self.promised, sign: true });
    }

    /// Sends an earlier statement again, without a signature.
    pub fn recast_unsigned(&mut self, to: To, message: M) {
        self.actions.push(Action::Send { to, message: Envelope::Protocol(message), after: self.promised, sign: false });
    }

    /// Repeats the vote for the last checkpoint if that is not stable yet: replicas that were down too may have missed
    /// it.
    pub(crate) fn repeat_checkpoint(&mut self, parts: &Parts) {
        let stable = parts.checkpoints.stable().subject.height;
        let Some(last) = parts.safety.last(Domain::Checkpoint).filter(|last| last.subject.height > stable) else {
            return;
        };
        let (subject, attachment) = (last.subject, last.attachment.clone());
        let message = Envelope::Checkpoint(Vote { subject, attachment, voter: parts.me, signature: Bytes::new() });
        self.actions.push(Action::Send { to: To::All, message, after: self.promised, sign: true });
    }

    /// Queues a vote that was part of a message for counting.
    pub fn count(&mut self, vote: Vote) {
        self.votes.push(vote);
    }

    /// Queues two contradicting statements for verification.
    pub fn suspect(&mut self, evidence: Evidence) {
        self.suspects.push(evidence);
    }

    /// Arms a timer.
    pub fn arm(&mut self, timer: Timer, after: Duration) {
        self.actions.push(Action::Arm { timer, after });
    }

    pub fn halt(&mut self, why: Halt) {
        self.actions.push(Action::Halt(why));
    }

    /// Records an observable event.
    pub fn mark(&mut self, mark: Mark) {
        self.actions.push(Action::Mark(mark));
    }

    /// Counts and records a message that is ignored.
    pub fn drop_message(&mut self, from: ReplicaId, why: Drop) {
        *self.dropped.entry(why).or_default() += 1;
        self.mark(Mark::Dropped { from, why });
    }

    /// Adds a block to the store; the protocol learns of it once it is complete.
    pub fn offer(&mut self, now: Time, parts: &mut Parts, block: Arc<Block>, source: ReplicaId) -> Taken {
        parts.store.offer(now, block, source, &parts.leaders, &mut self.whole)
    }

    /// Adds a bundle that came with a proposal to the store.
    pub fn supply(&mut self, parts: &mut Parts, bundle: Bundle) {
        parts.store.supply_for(bundle, Need::Proposed, &parts.leaders, &mut self.whole);
    }

    /// Sends waiting bundles to the replica that should propose them.
    pub fn relay(&mut self, to: ReplicaId, bundles: Vec<Bundle>) {
        if !bundles.is_empty() {
            self.actions.push(Action::Send {
                to: To::One(to),
                message: Envelope::Relay(bundles),
                after: None,
                sign: false,
            });
        }
    }

    /// Returns whether the leader, by its proposal at `proposed`, passed over a command that it should have included.
    /// Relays commands that have waited for a while to the leader, and overdue ones to all.
    pub fn hold_to_account(&mut self, now: Time, proposed: Time, leader: ReplicaId, parts: &mut Parts) -> bool {
        for bundle in parts.fairness.to_relay(now, &parts.store.pool) {
            self.relay(leader, vec![bundle]);
        }
        let finding = parts.fairness.judge(proposed, &parts.store.pool);
        if let Finding::Late(bundle) | Finding::Overdue(bundle) = finding {
            self.relay(leader, parts.store.pool.oldest_pending_after(&bundle, MAX_RELAYED_BUNDLES));
        }
        if let Finding::Overdue(bundle) = finding
            && let Some(bundle) = parts.store.pool.get(&bundle).cloned()
        {
            let message = Envelope::Relay(vec![bundle]);
            self.actions.push(Action::Send { to: To::Others, message, after: None, sign: false });
        }
        finding == Finding::PassedOver
    }

    /// Handles the certificate of a checkpoint, which makes it stable if it is the newest.
    pub fn stabilise(&mut self, parts: &mut Parts, certificate: Certificate) {
        let height = certificate.subject.height;
        let meaning = parts.checkpoints.raise(certificate.clone());
        if meaning != Meaning::Old {
            self.persist(Record::Certificate(Box::new(certificate)));
            self.mark(Mark::Stable { height });
            self.judge_checkpoint(parts, meaning);
        }
    }

    /// Acts on the comparison of a checkpoint's certificate with this replica's own execution.
    pub(crate) fn judge_checkpoint(&mut self, parts: &mut Parts, meaning: Meaning) {
        match meaning {
            Meaning::Old | Meaning::Stable => {}
            Meaning::Kept => {
                parts.store.keep_above(parts.checkpoints.needed_above());
                let checkpoint = parts.checkpoints.offered().expect("a state that is kept is offered").clone();
                self.actions.push(Action::StateStable { checkpoint: Box::new(checkpoint) });
            }
            Meaning::Diverged(height) => self.halt(Halt::Diverged { height }),
        }
    }

    /// Offers the newest kept state to a peer that lacks blocks no longer available. Returns false if no kept state
    /// would help.
    pub fn offer_state(&mut self, parts: &Parts, to: ReplicaId, above: Height) -> bool {
        let helps = |checkpoint: &&Certificate| checkpoint.subject.height > above;
        let Some(checkpoint) = parts.checkpoints.offered().filter(helps) else { return false };
        let message = Envelope::Offer { checkpoint: Box::new(checkpoint.clone()) };
        self.actions.push(Action::Send { to: To::One(to), message, after: None, sign: false });
        true
    }

    /// Commits every block up to `digest`. Returns false if that contradicts the committed blocks.
    pub fn commit(&mut self, parts: &mut Parts, digest: &Digest) -> bool {
        if let Some(block) = parts.store.tree.get(digest).filter(|block| block.height > parts.store.committed()) {
            let height = block.height;
            self.keep_block(parts, digest);
            self.persist(Record::Commit { height, digest: *digest });
        }
        let actions = &mut self.actions;
        parts.store.commit(digest, |block, bundles, frontier| {
            actions.push(Action::Commit { block, bundles });
            actions.extend(frontier.map(|frontier| Action::DigestState { frontier }));
        })
    }
}
