//! Output of a step: actions for the host, and items that the shell handles before the step ends.

use crate::recovery::journal::{BUNDLES_RECORD_BYTES, Record};
use crate::seam::{Action, Drop, Envelope, Evidence, Halt, Mark, Message, RecordId, Timer, To};
use crate::store::Store;
use quorate_types::{Block, Bundle, Digest, Encoder, Height, ReplicaId, View, Vote};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Collector of the actions of a step, in order.
pub struct Outbox<M> {
    pub(crate) actions: Vec<Action<M>>,
    pub(crate) votes: Vec<Vote>,
    pub(crate) suspects: Vec<Evidence>,
    pub(crate) whole: Vec<Digest>,
    pub(crate) dropped: BTreeMap<Drop, u64>,
    pub(crate) records: u64,
    /// Whether this step stops the replica.
    halted: bool,
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
            halted: false,
            promised: None,
            reservation: None,
        }
    }

    /// Sends a message that depends on no record.
    pub fn send(&mut self, to: To, message: M) {
        self.actions.push(Action::Send { to, message: Envelope::Protocol(message), after: None, sign: false });
    }

    /// Appends a record to the journal. Every later statement waits for it.
    pub fn persist(&mut self, record: Record) -> RecordId {
        self.records += 1;
        let id = RecordId(self.records);
        self.note(id, &record);
        self.actions.push(Action::Persist { id, record });
        id
    }

    /// Registers a record that is in the journal, or will be.
    pub(crate) fn note(&mut self, id: RecordId, record: &Record) {
        if let Record::Promise(promise) = record {
            self.promised = Some(id);
            let known = self.reservation.map(|(view, _)| view);
            if let Some(view) = promise.reserves().filter(|view| known < Some(*view)) {
                self.reservation = Some((view, id));
            }
        }
        // After this record a restarted replica may propose in the reserved view. If it relied on the reservation again
        // and crashed before its proposal was durable, it could propose there once more.
        if let Record::Stopped { .. } = record {
            self.forget_reservation();
        }
    }

    /// Drops the reservation. A summary may remove its record; the records that follow renew it.
    pub(crate) fn forget_reservation(&mut self) {
        self.reservation = None;
    }

    /// Journals a block after its bundles.
    pub(crate) fn persist_block(&mut self, store: &Store, block: Arc<Block>) {
        self.persist_bundles(store.bundles_to_journal(&block));
        self.persist(Record::Block(block));
    }

    /// Journals bundles without a block, in as many records as they need.
    pub(crate) fn persist_bundles(&mut self, bundles: impl IntoIterator<Item = Bundle>) {
        self.persist_as(bundles, Record::Bundles);
    }

    /// Journals bundles that this replica is about to acknowledge, in as many records as they need.
    pub(crate) fn persist_kept(&mut self, spreader: ReplicaId, until: Height, bundles: Vec<Bundle>) {
        self.persist_as(bundles, |bundles| Record::Kept { spreader, until, bundles });
    }

    fn persist_as(&mut self, bundles: impl IntoIterator<Item = Bundle>, wrap: impl Fn(Vec<Bundle>) -> Record) {
        let bundles = bundles.into_iter();
        let (mut record, mut bytes) = (Vec::with_capacity(bundles.size_hint().1.unwrap_or(0)), 0);
        for bundle in bundles {
            let size = bundle.body().len();
            if bytes + size > BUNDLES_RECORD_BYTES && !record.is_empty() {
                self.persist(wrap(std::mem::take(&mut record)));
                bytes = 0;
            }
            bytes += size;
            record.push(bundle);
        }
        if !record.is_empty() {
            self.persist(wrap(record));
        }
    }

    /// Journals a message that may have to be resent.
    pub fn keep_message(&mut self, message: &M) {
        let mut out = Encoder::with_capacity(512);
        message.encode(&mut out);
        self.persist(Record::Message(out.finish()));
    }

    /// Returns the record that must be durable before this replica proposes in `view`, if its journal holds a
    /// reservation of that view; see [`Promise::reserves`](crate::voting::safety::Promise::reserves).
    pub(crate) fn reservation(&self, view: View) -> Option<RecordId> {
        self.reservation.filter(|(reserved, _)| *reserved == view).map(|(_, record)| record)
    }

    /// Sends a message once a record is durable.
    pub(crate) fn send_after(&mut self, after: RecordId, to: To, message: Envelope<M>, sign: bool) {
        self.actions.push(Action::Send { to, message, after: Some(after), sign });
    }

    /// Resends an earlier statement, signed. Waits for the last statement's record, in case the earlier one is not
    /// durable yet.
    pub fn recast(&mut self, to: To, message: M) {
        self.recast_envelope(to, Envelope::Protocol(message));
    }

    /// Resends an earlier statement that is not a message of the protocol.
    pub(crate) fn recast_envelope(&mut self, to: To, message: Envelope<M>) {
        self.actions.push(Action::Send { to, message, after: self.promised, sign: true });
    }

    /// Resends an earlier statement, without a signature.
    pub fn recast_unsigned(&mut self, to: To, message: M) {
        self.actions.push(Action::Send { to, message: Envelope::Protocol(message), after: self.promised, sign: false });
    }

    /// Queues a vote from a message for counting.
    pub fn count(&mut self, vote: Vote) {
        self.votes.push(vote);
    }

    /// Queues two contradicting statements for verification.
    pub fn suspect(&mut self, evidence: Evidence) {
        self.suspects.push(evidence);
    }

    pub fn arm(&mut self, timer: Timer, after: Duration) {
        self.actions.push(Action::Arm { timer, after });
    }

    /// Stops the replica. The rest of the step has no effect; see [`Outbox::fall_silent`].
    pub fn halt(&mut self, why: Halt) {
        self.halted = true;
        self.actions.push(Action::Halt(why));
    }

    /// Drops all externally visible actions, if this step stops the replica: it may have sent messages earlier in the
    /// step, before it detected that its state is wrong.
    pub(crate) fn fall_silent(&mut self) {
        if std::mem::take(&mut self.halted) {
            self.actions.retain(|action| matches!(action, Action::Halt(_) | Action::Mark(_) | Action::Accuse(_)));
        }
    }

    /// Records an observable event.
    pub fn mark(&mut self, mark: Mark) {
        self.actions.push(Action::Mark(mark));
    }

    /// Counts and records an ignored message.
    pub fn drop_message(&mut self, from: ReplicaId, why: Drop) {
        *self.dropped.entry(why).or_default() += 1;
        self.mark(Mark::Dropped { from, why });
    }

    /// Sends pending bundles to replicas that should propose them, or have them proposed.
    pub fn relay(&mut self, to: To, bundles: Vec<Bundle>) {
        if !bundles.is_empty() {
            self.actions.push(Action::Send { to, message: Envelope::Relay(bundles), after: None, sign: false });
        }
    }
}
