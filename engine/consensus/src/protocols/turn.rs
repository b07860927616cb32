//! Context in which a protocol handles one event: the shared parts, the outbox, and operations on both.

use crate::data::pool::{MAX_RELAYED_BUNDLES, Need};
use crate::protocols::outbox::Outbox;
use crate::protocols::parts::Parts;
use crate::recovery::checkpoints::Meaning;
use crate::recovery::journal::Record;
use crate::seam::{Action, Drop, Envelope, Halt, MAX_COVERS, MAX_SPREAD_BYTES, Mark, Message, RecordId, To};
use crate::store::Taken;
use crate::store::delivery::in_messages;
use crate::voting::fairness::Finding;
use crate::voting::safety::Ballot;
use quorate_types::{Block, Bundle, Certificate, Digest, Height, ReplicaId, Time, View, Vote};
use std::sync::Arc;

/// One event's time, the state shared by all protocols, and the actions so far.
pub struct Turn<'a, M> {
    pub now: Time,
    pub parts: &'a mut Parts,
    pub out: &'a mut Outbox<M>,
}

impl<M: Message> Turn<'_, M> {
    pub fn view(&self) -> View {
        self.parts.pacemaker.view()
    }

    /// Returns the height of the last committed block.
    pub fn committed(&self) -> Height {
        self.parts.store.committed()
    }

    /// Casts a ballot: makes its promise and its block durable, signs the vote, wraps it in a message and sends it, in
    /// this order.
    pub fn cast(&mut self, ballot: &Ballot, to: To, wrap: impl FnOnce(Vote) -> M) {
        self.cast_in_envelope(ballot, to, |vote| Envelope::Protocol(wrap(vote)));
    }

    /// Casts a ballot whose vote is not a message of the protocol.
    pub(crate) fn cast_in_envelope(&mut self, ballot: &Ballot, to: To, wrap: impl FnOnce(Vote) -> Envelope<M>) {
        let after = self.promise(ballot);
        self.out.send_after(after, to, wrap(ballot.to_vote(self.parts.me)), true);
    }

    /// Casts the ballot of a proposal to all. The proposal need not wait for its own record if this replica's statement
    /// in the previous view is durable, because that statement reserves the view. So the block reaches the voters'
    /// disks without waiting for its proposer's disk.
    pub fn cast_proposal(&mut self, ballot: &Ballot, wrap: impl FnOnce(Vote) -> M) {
        let reservation = self.out.reservation(ballot.subject().view);
        let own = self.promise(ballot);
        let after =
            reservation.map_or(own, |record| if bug!(ReservedUnwritten) { RecordId(0) } else { record.min(own) });
        let message = Envelope::Protocol(wrap(ballot.to_vote(self.parts.me)));
        self.out.send_after(after, To::All, message, true);
    }

    /// Casts a ballot whose vote needs no signature, because the channel authenticates its sender to all recipients.
    pub fn cast_unsigned(&mut self, ballot: &Ballot, to: To, wrap: impl FnOnce(Vote) -> M) {
        let after = self.promise(ballot);
        let message = Envelope::Protocol(wrap(ballot.to_vote(self.parts.me)));
        self.out.send_after(after, to, message, false);
    }

    /// Journals the block of a ballot, and the ballot's promise. Returns the record of the promise.
    fn promise(&mut self, ballot: &Ballot) -> RecordId {
        self.keep_block(&ballot.subject().digest);
        self.out.persist(Record::Promise(self.parts.safety.promise(ballot)))
    }

    /// Journals a block with its bundles, after any of its ancestors that are not journaled yet.
    pub fn keep_block(&mut self, digest: &Digest) {
        for block in self.parts.store.tree.take_unjournaled(digest) {
            self.out.persist_block(&self.parts.store, block);
        }
    }

    /// Adds a block to the store; the protocol is notified once it is complete.
    pub fn offer(&mut self, block: Arc<Block>, source: ReplicaId) -> Taken {
        let Parts { store, leaders, .. } = &mut *self.parts;
        store.offer(self.now, block, source, leaders, &mut self.out.whole)
    }

    /// Adds a bundle that arrived with a proposal to the store.
    pub fn supply(&mut self, bundle: Bundle) {
        let Parts { store, leaders, .. } = &mut *self.parts;
        store.supply_for(bundle, Need::Proposed, leaders, &mut self.out.whole);
    }

    /// Returns whether the leader's proposal at `proposed` passes over a command that it should include. Relays late
    /// commands to the leader, and overdue ones to all.
    pub fn judge_leader(&mut self, proposed: Time, leader: ReplicaId) -> bool {
        for bundle in self.parts.fairness.to_relay(self.now, &self.parts.store.pool) {
            self.relay(To::One(leader), vec![bundle]);
        }
        let finding = self.parts.fairness.judge(proposed, &self.parts.store.pool);
        let pool = &self.parts.store.pool;
        if let Finding::Late(bundle) | Finding::Overdue(bundle) = finding {
            let late = pool.oldest_pending_after(&bundle, MAX_RELAYED_BUNDLES);
            self.relay(To::One(leader), late);
        }
        if let Finding::Overdue(bundle) = finding {
            let overdue = self.parts.store.pool.get(&bundle).cloned().into_iter().collect();
            self.relay(To::Others, overdue);
        }
        finding == Finding::PassedOver
    }

    /// Judges the time of a block that this replica is about to vote for, before anybody has certified it.
    ///
    /// # Errors
    /// If it is too far from this replica's clock.
    pub fn judge_time(&mut self, block: &Block) -> Result<(), Drop> {
        self.parts.clock.judge(self.now, block, self.parts.pacemaker.duration())
    }

    /// Handles the certificate of a checkpoint, which makes it stable if it is the newest.
    pub fn stabilise(&mut self, certificate: Certificate) {
        let height = certificate.subject.height;
        let meaning = self.parts.checkpoints.raise(certificate.clone());
        if meaning != Meaning::Old {
            self.out.persist(Record::Certificate(Box::new(certificate)));
            self.out.mark(Mark::Stable { height });
            self.act_on(meaning);
        }
    }

    /// Acts on the comparison of a checkpoint's certificate with this replica's own execution.
    pub(crate) fn act_on(&mut self, meaning: Meaning) {
        match meaning {
            Meaning::Old | Meaning::Stable => {}
            Meaning::Kept => {
                self.parts.store.keep_above(self.parts.checkpoints.needed_above());
                let checkpoint =
                    self.parts.checkpoints.offered().expect("a certified state that is kept is offered").clone();
                self.out.actions.push(Action::StateStable { checkpoint: Box::new(checkpoint) });
            }
            Meaning::Diverged(height) => self.out.halt(Halt::Diverged { height }),
        }
    }

    /// Offers the newest kept state to a peer whose missing blocks are no longer available. Returns false if no kept
    /// state would help.
    pub fn offer_state(&mut self, to: ReplicaId, above: Height) -> bool {
        let helps = |checkpoint: &&Certificate| checkpoint.subject.height > above;
        let Some(checkpoint) = self.parts.checkpoints.offered().filter(helps) else { return false };
        let message = Envelope::Offer { checkpoint: Box::new(checkpoint.clone()) };
        self.out.actions.push(Action::Send { to: To::One(to), message, after: None, sign: false });
        true
    }

    /// Commits every block up to `digest`, as far as their bundles have arrived; [`Turn::deliver`] commits the rest.
    /// Returns false if this contradicts the committed blocks.
    pub fn commit(&mut self, digest: &Digest) -> bool {
        let goes_on = self.parts.store.decide(digest);
        self.deliver();
        goes_on
    }

    /// Commits the final blocks whose bundles have arrived, in order.
    pub fn deliver(&mut self) {
        let path = self.parts.store.deliverable();
        let Some((height, digest)) = path.last().map(|block| (block.height, block.digest())) else { return };
        self.keep_block(&digest);
        if self.parts.config.dissemination.is_certified() {
            self.out.persist_bundles(self.parts.store.late_bundles(&path));
        }
        self.out.persist(Record::Commit { height, digest });
        let (actions, clock) = (&mut self.out.actions, &mut self.parts.clock);
        self.parts.store.commit(&digest, |block, bundles, frontier| {
            clock.on_commit(&block.digest());
            actions.push(Action::Commit { block, bundles });
            actions.extend(frontier.map(|frontier| Action::DigestState { frontier }));
        });
        for (height, bundle) in self.parts.store.absence.take_fresh() {
            self.out.mark(Mark::Voided { height, bundle });
        }
    }

    /// Relays pending bundles, preceded by the proof that they may be proposed, if they need one.
    pub fn relay(&mut self, to: To, bundles: Vec<Bundle>) {
        if self.parts.config.dissemination.is_certified() {
            let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
            for message in in_messages(self.parts.store.batches().covers(&digests), MAX_COVERS, MAX_SPREAD_BYTES) {
                self.out.actions.push(Action::Send { to, message, after: None, sign: false });
            }
        }
        self.out.relay(to, bundles);
    }

    /// Sends peers the certificates named by a block that is about to be proposed to them. Replicas that signed one do
    /// not rely on it.
    pub fn show_covers(&mut self, to: To, block: &Block) {
        if !self.parts.config.dissemination.is_certified() {
            return;
        }
        let covers = self.parts.store.batches().named_by(block);
        let goes_to = |replica: &ReplicaId| *replica != self.parts.me && !matches!(to, To::One(one) if one != *replica);
        let recipients: Vec<ReplicaId> =
            (0..self.parts.quorum.replicas() as u16).map(ReplicaId).filter(goes_to).collect();
        for replica in recipients {
            let needed = covers.iter().filter(|cover| !cover.certificate.signers.contains(replica)).cloned().collect();
            for message in in_messages(needed, MAX_COVERS, MAX_SPREAD_BYTES) {
                self.out.actions.push(Action::Send { to: To::One(replica), message, after: None, sign: false });
            }
        }
    }
}
