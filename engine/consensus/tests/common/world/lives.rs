//! Crashes and restarts of replicas, and the resulting state of their journals.

use super::states::States;
use super::{Happening, Node, World};
use crate::common::play::Play;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::seam::RecordId;
use quorate_consensus::{Action, Input, Replica};
use quorate_types::{Decoder, Digest, Domain, Encoder, Height, ReplicaId, Subject, Vote, Wire};

impl<P: Play> Node<P> {
    /// Returns whether the journal is empty although it is not new.
    fn lacks_records(&self) -> bool {
        self.lost_disk && self.durable.is_empty()
    }

    /// Checks that a statement leaves after its own record, each time it is sent. A proposal may instead leave after
    /// the record of a vote or a proposal in the previous view.
    pub(super) fn waits_for_its_record(&self, me: ReplicaId, vote: &Vote, after: Option<RecordId>) {
        let Some(after) = after else { panic!("{me:?} sends {:?} without waiting for its record", vote.subject) };
        // The journal holds the bundles of an acknowledged batch, which the vote does not name.
        if vote.subject.domain == Domain::Stored {
            return;
        }
        let reserves = |earlier: &Subject| {
            let timed_out = earlier.domain == Domain::Timeout || earlier.domain == Domain::Checkpoint;
            P::RESERVES && vote.subject.domain.is_proposal() && !timed_out && earlier.view.next() == vote.subject.view
        };
        let covers = |subject: &Subject| *subject == vote.subject || reserves(subject);
        let promised = |record: &Record| matches!(record, Record::Promise(promise) if covers(&promise.subject));
        let waits = self.durable.range(..=after).rev().any(|(_, record)| promised(record));
        assert!(waits, "{me:?} sends {:?} after the record of another statement", vote.subject);
    }
}

impl<P: Play> World<P> {
    /// Checks that a bundle of a final block for which an honest replica waits is in the memory or the journal of an
    /// honest replica, or was executed by one.
    pub(super) fn check_availability(&mut self, replica: ReplicaId) {
        let missing = self.nodes[replica.index()].replica.parts().store.awaited();
        if missing == self.nodes[replica.index()].missing || self.oracle.is_byzantine(replica) {
            return;
        }
        self.nodes[replica.index()].missing = missing;
        let Some(missing) = missing else { return };
        let holds = |other: &ReplicaId| {
            let node = &self.nodes[other.index()];
            let journaled = |record: &Record| record.bundles().iter().any(|bundle| bundle.digest() == missing);
            let executed = || node.commits.iter().any(|commit| commit.block.payload.contains(&missing));
            let held = node.alive && node.replica.parts().store.pool.contains(&missing);
            !self.oracle.is_byzantine(*other) && (held || node.durable.values().any(journaled) || executed())
        };
        assert!(
            self.replicas().iter().any(holds),
            "{replica:?} waits for bundle {missing:?} of a final block, which no honest replica has"
        );
    }

    /// Makes the application of a replica compute wrong states from now on. The replica may halt.
    pub fn spoil_state(&mut self, replica: u16) {
        self.may_halt = Some(replica);
        self.nodes[usize::from(replica)].state = Digest([0xbd; 32]);
    }

    /// Crashes a replica until it is restarted. Its messages in flight still arrive.
    pub fn kill(&mut self, replica: u16) {
        let node = &mut self.nodes[usize::from(replica)];
        node.alive = false;
        for key in std::mem::take(&mut node.alarms).into_values() {
            self.queue.remove(&key);
        }
        let to_itself = |from: ReplicaId, to: ReplicaId| from == to && to.0 == replica;
        self.queue
            .retain(|_, happening| !matches!(happening, Happening::Deliver { from, to, .. } if to_itself(*from, *to)));
        self.tell(ReplicaId(replica), "stops for good".into());
    }

    /// Crashes a replica while it is sending. Each of its messages in flight is lost with the given probability.
    pub fn kill_in_mid_sentence(&mut self, replica: u16, lost_per_mille: u64) {
        let random = &mut self.random;
        self.queue.retain(|_, happening| match happening {
            Happening::Deliver { from, .. } if from.0 == replica => !random.per_mille(lost_per_mille),
            _ => true,
        });
        self.kill(replica);
    }

    /// Crashes a replica after this number of further actions, possibly in the middle of a step.
    pub fn crash_after(&mut self, replica: u16, actions: u64) {
        self.nodes[usize::from(replica)].fuse = Some(actions);
    }

    pub fn is_alive(&self, replica: u16) -> bool {
        self.nodes[usize::from(replica)].alive
    }

    /// Restarts a crashed replica from its journal. Of the last records, for which no message has waited, at most
    /// `unawaited` are kept; the others were not written yet.
    pub fn restart(&mut self, replica: u16, unawaited: usize) {
        let (me, quorum, cluster) = (ReplicaId(replica), self.keys.quorum, self.keys.epoch);
        let node = &mut self.nodes[usize::from(replica)];
        assert!(!node.alive, "only a crashed replica is restarted");
        node.life += 1;
        let salt = self.seed ^ (u64::from(node.life) << 32 | 0x11fe);
        node.replica = P::replica(self.config.clone(), quorum, cluster, me, salt);
        let kept = node.durable.keys().filter(|id| Some(**id) > node.awaited).nth(unawaited).copied();
        if let Some(first_lost) = kept {
            for record in node.durable.split_off(&first_lost).into_values() {
                if let Record::Promise(promise) = record {
                    self.oracle.lost(me, promise.subject);
                }
            }
        }
        (node.alive, node.fuse) = (true, None);
        (node.executed, node.state) = node.snapshot;
        for checkpoint in node.states.begin_again() {
            self.step(me, Input::Kept { checkpoint: Box::new(checkpoint) });
        }
        let node = &self.nodes[usize::from(replica)];
        let records: Vec<_> = node.durable.iter().map(|(id, record)| (*id, record.clone())).collect();
        self.oracle.restarts(me);
        for (id, record) in records {
            self.oracle.journaled(me, &record);
            // Decode the records from bytes, as a host would.
            let mut out = Encoder::with_capacity(512);
            let pieces = record.pieces(&mut out).concat();
            record.encode(&mut out);
            assert_eq!(out.finish(), pieces, "the pieces concatenate to the encoding");
            let record = Record::decode(&mut Decoder::new(pieces.into())).expect("a record decodes");
            self.step(me, Input::Recall { id, record });
        }
        if self.nodes[usize::from(replica)].lacks_records() {
            self.step(me, Input::Forgot);
        }
        self.tell(me, "comes back".into());
        self.tell_of_adoption(me);
        self.step(me, Input::Start);
    }

    /// Removes the bundles that a crashed replica has acknowledged from its journal, as if it had lost its disk and
    /// voted again since.
    pub fn lose_kept(&mut self, replica: u16) {
        let node = &mut self.nodes[usize::from(replica)];
        assert!(!node.alive, "only a crashed replica loses a part of its journal");
        node.durable.retain(|_, record| !matches!(record, Record::Kept { .. }));
        self.oracle.loses_disk(ReplicaId(replica));
    }

    /// Edits the journal of a crashed replica.
    pub fn edit_records(&mut self, replica: u16, edit: impl FnMut(&mut Record)) {
        let node = &mut self.nodes[usize::from(replica)];
        assert!(!node.alive, "the journal of a running replica is its own");
        node.durable.values_mut().for_each(edit);
    }

    /// Returns the state that this replica would have if it restarted now without losing anything, and the new
    /// statements that it makes at its start: a primary may propose waiting commands.
    pub fn restarted_copy(&self, replica: u16) -> (Replica<P::Engine>, Vec<Subject>) {
        self.copy_with(replica, RecordId(u64::MAX))
    }

    /// Returns the state that this replica would have if it crashed now and lost every record for which no message
    /// waits.
    pub fn copy_after_a_crash(&self, replica: u16) -> Replica<P::Engine> {
        self.copy_with(replica, self.nodes[usize::from(replica)].awaited.unwrap_or(RecordId(0))).0
    }

    fn copy_with(&self, replica: u16, last: RecordId) -> (Replica<P::Engine>, Vec<Subject>) {
        let node = &self.nodes[usize::from(replica)];
        let (quorum, cluster) = (self.keys.quorum, self.keys.epoch);
        let mut copy = P::replica(self.config.clone(), quorum, cluster, ReplicaId(replica), 1);
        let kept = node.states.certified().map(|checkpoint| Input::Kept { checkpoint: Box::new(checkpoint) });
        let durable = || node.durable.range(..=last);
        let recalled = durable().map(|(id, record)| Input::Recall { id: *id, record: record.clone() });
        let forgot = (node.lost_disk && durable().next().is_none()).then_some(Input::Forgot);
        let inputs: Vec<_> = kept.chain(recalled).chain(forgot).collect();
        inputs.into_iter().for_each(|input| copy.step(self.now, input, &mut Vec::new()));
        if let Some(input) = node.states.adoption(copy.committed_height()) {
            copy.step(self.now, input, &mut Vec::new());
        }
        let mut actions = Vec::new();
        copy.step(self.now, Input::Start, &mut actions);
        let new = actions.iter().filter_map(|action| match action {
            Action::Persist { record: Record::Promise(promise), .. } => Some(promise.subject),
            _ => None,
        });
        (copy, new.collect())
    }

    /// Returns the durable records of a replica's journal, in their order.
    pub fn records(&self, replica: u16) -> impl Iterator<Item = &Record> {
        self.nodes[usize::from(replica)].durable.values()
    }

    /// Restarts a replica whose journal is lost.
    pub fn restart_without_memory(&mut self, replica: u16) {
        self.oracle.forgets(ReplicaId(replica));
        self.oracle.restarts(ReplicaId(replica));
        let node = &mut self.nodes[usize::from(replica)];
        node.durable.clear();
        node.lost_disk = true;
        (node.alive, node.life, node.awaited) = (true, node.life + 1, None);
        (node.fuse, node.executed, node.state) = (None, Height(0), Digest::ZERO);
        (node.snapshot, node.states) = ((Height(0), Digest::ZERO), States::default());
        let salt = self.seed ^ (u64::from(node.life) << 32 | 0x11fe);
        let (quorum, cluster) = (self.keys.quorum, self.keys.epoch);
        node.replica = P::replica(self.config.clone(), quorum, cluster, ReplicaId(replica), salt);
        self.step(ReplicaId(replica), Input::Forgot);
        self.step(ReplicaId(replica), Input::Start);
    }

    /// Makes a replica summarize its journal and write its state, and truncates the journal at the last summary that
    /// every replica has passed.
    pub fn shorten_journal(&mut self, replica: u16) {
        self.step(ReplicaId(replica), Input::Summarize);
        let lowest = self.nodes.iter().map(|node| node.commits.len() as u64).min().map(Height);
        let node = &mut self.nodes[usize::from(replica)];
        if !node.alive {
            return;
        }
        node.snapshot = (node.executed, node.state);
        self.oracle.forgetful = true;
        node.awaited = node.durable.keys().last().copied();
        let passed = |record: &Record| matches!(record, Record::Summary { height, .. } if Some(*height) <= lowest);
        let complete = |id: &RecordId| {
            let follow = node.durable.range(*id..).skip(1).map(|(_, record)| record);
            let mut ends = follow.filter(|record| matches!(record, Record::Summed | Record::Summary { .. }));
            ends.next() == Some(&Record::Summed)
        };
        let cut = node.durable.iter().rev().find(|(id, record)| passed(record) && complete(id));
        if let Some(id) = cut.map(|(id, _)| *id) {
            // Only whole segments are removed, so some unneeded records remain.
            let leftovers = self.random.below(6) as usize;
            let first = node.durable.range(..id).rev().take(leftovers).last().map_or(id, |(first, _)| *first);
            node.durable = node.durable.split_off(&first);
        }
    }
}
