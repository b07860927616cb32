//! What a protocol wants done. Here a statement becomes a record and a message that waits for it.

use crate::checkpoints::Meaning;
use crate::fairness::Finding;
use crate::journal::{BUNDLES_RECORD_BYTES, Record};
use crate::parts::Parts;
use crate::pool::{MAX_RELAYED_BUNDLES, Need};
use crate::safety::Ballot;
use crate::seam::{Action, Drop, Envelope, Evidence, Halt, Mark, Message, RecordId, Timer, To};
use crate::store::Taken;
use bytes::Bytes;
use quorate_types::{Block, Bundle, Certificate, Digest, Domain, Encoder, Height, ReplicaId, Time, View, Vote};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Where a protocol puts what it wants done.
pub struct Outbox<M> {
    pub(crate) actions: Vec<Action<M>>,
    pub(crate) votes: Vec<Vote>,
    pub(crate) suspects: Vec<Evidence>,
    pub(crate) whole: Vec<Digest>,
    pub(crate) dropped: BTreeMap<Drop, u64>,
    pub(crate) records: u64,
    /// The record of the last statement.
    promised: Option<RecordId>,
    /// The last view in which this replica may propose before the record of that is durable, and the record that has to be.
    reservation: Option<(View, RecordId)>,
}

impl<M: Message> Outbox<M> {
    /// Nothing wanted, and nothing in the journal.
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

    /// Sends a message that nothing needs to precede.
    pub fn send(&mut self, to: To, message: M) {
        self.actions.push(Action::Send { to, message: Envelope::Protocol(message), after: None, sign: false });
    }

    /// Has the journal remember something, before whatever is cast from now on.
    pub fn persist(&mut self, record: Record) -> RecordId {
        self.records += 1;
        let id = RecordId(self.records);
        self.note(id, &record);
        self.actions.push(Action::Persist { id, record });
        id
    }

    /// The journal holds this record, or will.
    pub(crate) fn note(&mut self, id: RecordId, record: &Record) {
        if let Record::Promise(promise) = record {
            self.promised = Some(id);
            let known = self.reservation.map(|(view, _)| view);
            if let Some(view) = promise.reserves().filter(|view| known < Some(*view)) {
                self.reservation = Some((view, id));
            }
        }
    }

    /// The journal is summed up, and the record of a reservation may be cut off; what follows makes it anew.
    pub(crate) fn forget_reservation(&mut self) {
        self.reservation = None;
    }

    /// Has the journal remember a block with its bundles, and before it those of its ancestors that it has not got.
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

    /// Has the journal remember a message that may have to be said or shown again.
    pub fn keep_message(&mut self, message: &M) {
        let mut out = Encoder::with_capacity(512);
        message.encode(&mut out);
        self.persist(Record::Message(out.finish()));
    }

    /// Casts a ballot: what it says, and the block that it is on, is made durable, signed, wrapped into a message and sent, in this
    /// order.
    pub fn cast(&mut self, parts: &mut Parts, ballot: &Ballot, to: To, wrap: impl FnOnce(Vote) -> M) {
        self.cast_in_envelope(parts, ballot, to, |vote| Envelope::Protocol(wrap(vote)));
    }

    /// The same, of a vote that is no message of the protocol.
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

    /// Casts the ballot of a proposal to all. It does not wait for its own record, if what this replica said in the view before is
    /// durable: that reserves the view, see [`Promise::reserves`](crate::safety::Promise::reserves). A block waits for the disk of its
    /// voters then, and not for that of its proposer before.
    pub fn cast_proposal(&mut self, parts: &mut Parts, ballot: &Ballot, wrap: impl FnOnce(Vote) -> M) {
        let reservation = self.reservation.filter(|(view, _)| *view == ballot.subject().view);
        self.cast(parts, ballot, To::All, wrap);
        if let (Some((_, record)), Some(Action::Send { after, .. })) = (reservation, self.actions.last_mut()) {
            *after = after.map(|own| own.min(record));
        }
    }

    /// Casts a ballot whose vote needs no signature, because it is for those only to whom the channel authenticates its sender.
    pub fn cast_unsigned(&mut self, parts: &mut Parts, ballot: &Ballot, to: To, wrap: impl FnOnce(Vote) -> M) {
        self.cast(parts, ballot, to, wrap);
        if let Some(Action::Send { sign, .. }) = self.actions.last_mut() {
            *sign = false;
        }
    }

    /// Sends what was cast last another so many times to the others, for links that lose messages.
    pub fn repeat(&mut self, times: usize) {
        let Some(Action::Send { message, after, sign, .. }) = self.actions.last().cloned() else {
            panic!("what is repeated was cast just before");
        };
        let again = Action::Send { to: To::Others, message, after, sign };
        self.actions.extend(std::iter::repeat_n(again, times));
    }

    /// Sends again what was cast before, and signs it the same. It may have been cast so lately that it is not durable yet.
    pub fn recast(&mut self, to: To, message: M) {
        self.actions.push(Action::Send { to, message: Envelope::Protocol(message), after: self.promised, sign: true });
    }

    /// Sends again what was cast before, without a signature.
    pub fn recast_unsigned(&mut self, to: To, message: M) {
        self.actions.push(Action::Send { to, message: Envelope::Protocol(message), after: self.promised, sign: false });
    }

    /// Says again what it said of the last checkpoint, if no quorum vouches for that yet: those who were down too may not have heard it.
    pub(crate) fn repeat_checkpoint(&mut self, parts: &Parts) {
        let stable = parts.checkpoints.stable().subject.height;
        let Some(last) = parts.safety.last(Domain::Checkpoint).filter(|last| last.subject.height > stable) else {
            return;
        };
        let (subject, attachment) = (last.subject, last.attachment.clone());
        let message = Envelope::Checkpoint(Vote { subject, attachment, voter: parts.me, signature: Bytes::new() });
        self.actions.push(Action::Send { to: To::All, message, after: self.promised, sign: true });
    }

    /// Has a vote counted that came inside a message.
    pub fn count(&mut self, vote: Vote) {
        self.votes.push(vote);
    }

    /// Two statements that contradict each other, if both are genuine.
    pub fn suspect(&mut self, evidence: Evidence) {
        self.suspects.push(evidence);
    }

    /// Sets an alarm.
    pub fn arm(&mut self, timer: Timer, after: Duration) {
        self.actions.push(Action::Arm { timer, after });
    }

    /// Stops this replica.
    pub fn halt(&mut self, why: Halt) {
        self.actions.push(Action::Halt(why));
    }

    /// Tells of a moment.
    pub fn mark(&mut self, mark: Mark) {
        self.actions.push(Action::Mark(mark));
    }

    /// Does not act on a message.
    pub fn drop_message(&mut self, from: ReplicaId, why: Drop) {
        *self.dropped.entry(why).or_default() += 1;
        self.mark(Mark::Dropped { from, why });
    }

    /// Takes a block in; the protocol hears of it when it is whole.
    pub fn offer(&mut self, now: Time, parts: &mut Parts, block: Arc<Block>, source: ReplicaId) -> Taken {
        parts.store.offer(now, block, source, &parts.leaders, &mut self.whole)
    }

    /// Takes in a bundle that came with a proposal.
    pub fn supply(&mut self, parts: &mut Parts, bundle: Bundle) {
        parts.store.supply_for(bundle, Need::Proposed, &parts.leaders, &mut self.whole);
    }

    /// Sends bundles that wait here to the replica that should propose them.
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

    /// Looks whether the leader passes a command over with what it proposed at `proposed`, and relays to it and the others what has waited
    /// for a while.
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

    /// A quorum vouches for the state at a checkpoint.
    pub fn stabilise(&mut self, parts: &mut Parts, certificate: Certificate) {
        let height = certificate.subject.height;
        let meaning = parts.checkpoints.raise(certificate.clone());
        if meaning != Meaning::Old {
            self.persist(Record::Certificate(Box::new(certificate)));
            self.mark(Mark::Stable { height });
            self.judge_checkpoint(parts, meaning);
        }
    }

    /// What the certificate of a checkpoint means beside what was executed here.
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

    /// Offers the state of the newest checkpoint that is kept here to one who lacks blocks that are gone; false if there is none that
    /// would help.
    pub fn offer_state(&mut self, parts: &Parts, to: ReplicaId, above: Height) -> bool {
        let helps = |checkpoint: &&Certificate| checkpoint.subject.height > above;
        let Some(checkpoint) = parts.checkpoints.offered().filter(helps) else { return false };
        let message = Envelope::Offer { checkpoint: Box::new(checkpoint.clone()) };
        self.actions.push(Action::Send { to: To::One(to), message, after: None, sign: false });
        true
    }

    /// Commits every block up to `digest`; false if that contradicts what is committed.
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
