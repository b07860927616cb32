//! Recovery with or without a journal.
//!
//! A replica whose journal is gone may have voted in views that it no longer knows. It asks all others how far they
//! are, and abstains in all views in which it may have voted according to a quorum's answers. For the proof see
//! `docs/adr/012-what-the-journal-holds.md`.

use super::{Event, Pending, Protocol, Recalled, Replica};
use crate::data::kept::MAX_RELIANCE_BLOCKS;
use crate::data::pool::Need;
use crate::recovery::journal::{Asking, FORGOTTEN, RecallError, Record, Standing};
use crate::replica::silence::Silence;
use crate::seam::{Action, Drop, Envelope, Halt, Mark, RecordId, To};
use quorate_types::{Block, Bundle, Certificate, Decoder, Digest, Domain, Height, ReplicaId, Time, View, Wire};
use std::sync::Arc;
use std::time::Duration;

/// Number of fetch retries for which `Ask` waits for an answer, as peers may be down.
const ASK_PATIENCE: u32 = 5;

/// Committed block, and the candidates for leader on top of it.
type Ancestor = (Arc<Block>, Vec<ReplicaId>);

/// Progress of restoring a journal.
#[derive(Default)]
pub(super) struct Recollection {
    pub(super) any: bool,
    /// The journal was truncated, and the records before its first complete summary are to be skipped.
    pub(super) leftovers: bool,
    /// Summary being read, in a truncated journal.
    pub(super) summary: Vec<Record>,
    pub(super) from_summary: bool,
    /// Whether a truncated journal's summary has taken effect.
    pub(super) begun: bool,
    /// Block from which to resume in place of the committed one, and its ancestors read so far.
    pub(super) root: Option<(Height, Digest, Vec<Ancestor>)>,
    /// Bundles of the next block.
    pub(super) bundles: Vec<Bundle>,
    /// Whether a state was adopted that the journal does not mention.
    pub(super) adopted: bool,
}

/// State of the return of a replica whose journal was lost, since its last start or earlier.
#[derive(Clone, Copy, Default)]
pub(super) struct Returning {
    /// Committed height when this replica last had its journal written just for its return.
    written_at: Option<Height>,
    /// Whether a crash could no longer make it silent again.
    is_durable: bool,
}

impl<P: Protocol> Replica<P> {
    /// Restores one record of the journal.
    pub(super) fn recall(&mut self, id: RecordId, record: Record, actions: &mut Vec<Action<P::Message>>) {
        assert!(id.0 > self.out.records, "records come in the order of their ids");
        if !std::mem::replace(&mut self.recalled.any, true) {
            (self.recalled.leftovers, self.recalled.from_summary) = (id.0 > 1, id.0 > 1);
        }
        self.out.records = id.0;
        self.out.note(id, &record);
        if let Err(why) = self.take_record(record) {
            self.out.halt(Halt::Unreadable { id, why });
        }
        actions.append(&mut self.out.actions);
    }

    /// Restores a record, but skips all records of a truncated journal before the first complete summary.
    fn take_record(&mut self, record: Record) -> Result<(), RecallError> {
        if !self.recalled.leftovers {
            return self.take_kept(record);
        }
        let summary = &mut self.recalled.summary;
        match record {
            Record::Summary { .. } => *summary = vec![record],
            // A summary contains no commits, so one that meets a commit was cut off.
            Record::Commit { .. } => summary.clear(),
            Record::Summed if !summary.is_empty() => {
                self.recalled.leftovers = false;
                return std::mem::take(summary).into_iter().try_for_each(|record| self.take_kept(record));
            }
            record if !summary.is_empty() => summary.push(record),
            _ => {}
        }
        Ok(())
    }

    fn take_kept(&mut self, record: Record) -> Result<(), RecallError> {
        let Self { parts, protocol, out, recalled, returning, lost_kept, .. } = self;
        match record {
            Record::Promise(promise) if promise.subject.domain == Domain::Absent => {
                parts.store.recall_absent(&promise.subject);
            }
            Record::Void(certificate) => _ = parts.store.absence.add(*certificate),
            Record::LostKept { up_to } => *lost_kept = Some(up_to),
            Record::Stopped { proposed } => parts.safety.stopped(proposed),
            Record::Promise(promise) => {
                let by_slot = P::counting(promise.subject.domain).by_height;
                parts.safety.recall(&promise, by_slot);
                protocol.recall(Recalled::Promise(&promise), parts);
            }
            Record::Bundles(bundles) => recalled.bundles.extend(bundles),
            Record::Kept { spreader, until, bundles } => parts.store.recall_kept(spreader, until, bundles),
            Record::Block(block) => {
                let (height, digest) = (block.height, block.digest());
                let bundles = std::mem::take(&mut recalled.bundles);
                if !parts.store.recall(block, bundles, &parts.leaders) {
                    return Err(RecallError::Incomplete { height, digest });
                }
            }
            Record::Certificate(certificate) => {
                parts.checkpoints.raise((*certificate).clone());
                protocol.recall(Recalled::Certificate(*certificate), parts);
            }
            Record::Message(message) => {
                let message = P::Message::decode(&mut Decoder::new(message)).map_err(RecallError::Message)?;
                protocol.recall(Recalled::Message(message), parts);
            }
            Record::Commit { height, digest } if height > parts.store.committed() => {
                // Bundles that arrived after the votes for their blocks.
                for bundle in std::mem::take(&mut recalled.bundles) {
                    parts.store.absence.took(&bundle.digest());
                    parts.store.supply_for(bundle, Need::Certified, &parts.leaders, &mut Vec::new());
                }
                let known = parts.store.tree.get(&digest).is_some_and(|block| block.height == height);
                let actions = &mut out.actions;
                let commit = |block, bundles, _| actions.push(Action::Commit { block, bundles });
                if !known || !parts.store.commit(&digest, commit) {
                    return Err(RecallError::Gap { height, digest });
                }
            }
            Record::Commit { .. } => {}
            Record::Standing(standing) => protocol.recall(Recalled::Standing(standing), parts),
            Record::Claims(claims) => protocol.recall(Recalled::Claims(claims), parts),
            Record::Abstain(bound) => {
                parts.safety.abstain(bound);
                *returning = Some(Returning::default());
            }
            Record::Summary { height, digest } => {
                let begins = recalled.from_summary && !std::mem::replace(&mut recalled.begun, true);
                // A summary above the committed height refers to a state that came from peers.
                recalled.root = (begins || height > parts.store.committed()).then(|| (height, digest, Vec::new()));
            }
            Record::Summed => {}
            Record::Ancestor { block, candidates } => {
                let Some((_, root, ancestors)) = &mut recalled.root else { return Ok(()) };
                let ends = block.digest() == *root;
                ancestors.push((block, candidates));
                if let Some((height, digest, ancestors)) = recalled.root.take_if(|_| ends) {
                    parts.store.begin_on(height, digest);
                    for (block, candidates) in ancestors {
                        parts.store.recall_ancestor(block, candidates.into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Abstains, because the journal is gone or a repair truncated it: this replica has made statements that were not
    /// restored.
    pub(super) fn forgot(&mut self, actions: &mut Vec<Action<P::Message>>) {
        self.parts.safety.abstain(FORGOTTEN);
        (self.returning, self.lost_kept) = (Some(Returning::default()), None);
        self.out.persist(Record::Abstain(FORGOTTEN));
        actions.append(&mut self.out.actions);
    }

    /// Starts, or resumes where the journal ends.
    pub(super) fn start(&mut self, now: Time) {
        self.recalled.bundles = Vec::new();
        if self.recalled.any || self.parts.safety.is_away() {
            // The nonce differs at each start of a replica, because either the salt is new or the record ids have
            // advanced.
            let nonce = self.salt ^ self.out.records.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.asking = Some(Asking::new(nonce, now, self.parts.leaders.forced()));
        }
        if self.parts.safety.abstains() == FORGOTTEN {
            self.out.mark(Mark::Forgot);
        } else if self.recalled.any {
            self.out.mark(Mark::Restarted { view: self.parts.safety.spoke_in(), height: self.parts.store.committed() });
        }
        self.started = true;
        self.tell(now, Event::Start);
        if self.recalled.adopted {
            self.summarize();
        }
        self.repeat_checkpoint();
    }

    /// Ends the replica in good order. Returns its last record, which the host writes to the journal after all others;
    /// `None` before the start. Without the record the replica restarts as after a crash, which may take a view longer.
    pub fn stop(&mut self) -> Option<(RecordId, Record)> {
        assert!(!self.stopped, "a replica stops once");
        self.stopped = true;
        self.started
            .then(|| (RecordId(self.out.records + 1), Record::Stopped { proposed: self.parts.safety.proposed() }))
    }

    /// Writes a summary to the journal: everything that is needed besides the state at the committed height.
    pub(super) fn summarize(&mut self) {
        self.begin_summary();
        for record in self.protocol.summary(&self.parts) {
            self.out.persist(record);
        }
        self.out.forget_reservation();
        for promise in self.parts.safety.promises() {
            self.out.persist(Record::Promise(promise));
        }
        self.out.persist(Record::Summed);
    }

    /// Writes the first part of a summary, from which later blocks can be placed. The journal can be truncated here
    /// only after the rest of the summary.
    pub(super) fn begin_summary(&mut self) {
        let (height, digest) = self.parts.store.tree.committed();
        self.out.persist(Record::Summary { height, digest });
        let stable = self.parts.checkpoints.stable();
        if stable.subject.height > Height(0) {
            self.out.persist(Record::Certificate(Box::new(stable.clone())));
        }
        for (block, candidates) in self.parts.store.ancestors() {
            self.out.persist(Record::Ancestor { block: block.clone(), candidates: candidates.to_vec() });
        }
        // A replica that has made no statement since its return needs this record, and no other makes it lock on its
        // highest certificate again.
        let safety = &self.parts.safety;
        if safety.is_away() || (safety.abstains() > View(0) && safety.spoke_in() <= safety.abstains()) {
            self.out.persist(Record::Abstain(safety.abstains()));
        }
        if let Some(up_to) = self.lost_kept() {
            self.out.persist(Record::LostKept { up_to });
        }
        for ((until, spreader), bundles) in self.parts.store.kept().all() {
            self.out.persist_kept(spreader, until, bundles);
        }
        let open: Vec<_> = self.parts.store.tree.journaled_above_commit().cloned().collect();
        for block in open {
            self.out.persist_block(&self.parts.store, block);
        }
        let absence = &self.parts.store.absence;
        for certificate in absence.certificates_above(height) {
            self.out.persist(Record::Void(Box::new(certificate.clone())));
        }
        for subject in absence.signed() {
            self.out.persist(Record::Promise(self.parts.safety.promise(&self.parts.safety.absent(*subject))));
        }
    }

    /// Asks those peers again that have not answered how far they are, if a retry is due.
    pub(super) fn ask_others(&mut self, now: Time) {
        let Some(asking) = self.asking.as_mut().filter(|asking| asking.due <= now) else { return };
        let retry = Duration::from_millis(self.parts.config.fetch_retry_ms) * ASK_PATIENCE;
        asking.due = now + retry;
        let nonce = asking.nonce;
        let others = (0..self.parts.quorum.replicas() as u16).map(ReplicaId).filter(|other| *other != self.parts.me);
        for other in others.filter(|other| !asking.answered.contains(*other)) {
            let message = Envelope::Ask { nonce };
            self.out.actions.push(Action::Send { to: To::One(other), message, after: None, sign: false });
        }
        self.fetch_armed = None;
    }

    /// Requests verification of the evidence in a peer's standing.
    pub(super) fn check_standing(&mut self, now: Time, from: ReplicaId, nonce: u64, standing: Standing) {
        if self.asking.as_ref().is_none_or(|asking| !asking.awaits(from, nonce)) {
            return self.drop_message(from, Drop::Unasked);
        }
        if self.protocol.spoken_up_to(&standing, &self.parts).is_none() {
            return self.drop_message(from, Drop::Malformed);
        }
        let genesis = &self.parts.genesis;
        let shown = standing.certificates.iter().filter(|certificate| *certificate != genesis);
        let attached = shown.clone().filter_map(Certificate::highest_attached_certificate);
        let certificates: Vec<Certificate> = shown.chain(attached).cloned().collect();
        let votes = standing.votes.clone();
        if certificates.is_empty() && votes.is_empty() {
            return self.on_standing(now, from, standing);
        }
        if self.checks[from.index()] >= super::MAX_CHECKS_PER_PEER {
            return self.drop_message(from, Drop::Overload);
        }
        self.checks[from.index()] += 1;
        let job = self.jobs.ask(Pending::Standing { from, standing });
        self.out.actions.push(Action::Verify { job, certificates, votes });
    }

    /// Handles a verified standing of a peer.
    pub(super) fn on_standing(&mut self, now: Time, from: ReplicaId, standing: Standing) {
        let Some(asking) = self.asking.as_mut().filter(|asking| !asking.answered.contains(from)) else { return };
        let bound = self.protocol.spoken_up_to(&standing, &self.parts).expect("only consistent standings are verified");
        asking.bound = asking.bound.max(bound);
        asking.answered.insert(from);
        if asking.answered.len() >= self.parts.quorum.quorum() || bug!(OneAnswerEnough) {
            let bound = asking.bound;
            self.asking = None;
            if self.parts.safety.abstains() == FORGOTTEN {
                self.parts.safety.abstain(bound);
                let after = self.out.persist(Record::Abstain(bound));
                self.out.actions.push(Action::AcceptRepair { after });
                self.out.mark(Mark::Abstains { up_to: bound });
            }
        }
        self.tell(now, Event::Shown { from, standing });
    }

    /// Makes the return of a replica that lost its journal durable. Once the replica votes again and lacks nothing that
    /// it knows of, and then with each block that it executes, it sends itself a message that waits for its journal.
    /// Nothing else would have these records written soon: the certificates with which it returned are not its own
    /// statements, and it has not voted for the blocks that it missed. The other replicas rely on these records when
    /// they lose their own disks.
    pub(super) fn confirm_return(&mut self) {
        let Some(returning) = self.returning.as_mut().filter(|_| !self.parts.safety.is_away()) else { return };
        let store = &self.parts.store;
        let lacks = !returning.is_durable && store.next_request().is_some();
        if lacks || returning.written_at == Some(store.committed()) {
            return;
        }
        returning.written_at = Some(store.committed());
        let (nonce, after) = (self.out.records, Some(RecordId(self.out.records)));
        let to = To::One(self.parts.me);
        self.out.actions.push(Action::Send { to, message: Envelope::Ask { nonce }, after, sign: false });
    }

    /// Handles this replica's message to itself: the journal now holds everything that the replica had when it sent the
    /// message.
    pub(super) fn on_return_durable(&mut self) {
        let Some(returning) = self.returning.as_mut().filter(|returning| returning.written_at.is_some()) else {
            return;
        };
        returning.is_durable = true;
        if self.parts.config.dissemination.is_certified() && self.lost_kept.is_none() {
            // It had executed at most this height when it acknowledged its last batch.
            let up_to = Height(self.parts.store.committed().0 + MAX_RELIANCE_BLOCKS);
            self.lost_kept = Some(up_to);
            self.out.persist(Record::LostKept { up_to });
        }
    }

    /// Returns the height up to which blocks may rely on bundles that this replica acknowledged and then lost with its
    /// journal, or `None` if there are no such bundles. Up to this height its lost disk counts as a fault for these
    /// bundles, even though the replica votes again.
    pub fn lost_kept(&self) -> Option<Height> {
        self.lost_kept.filter(|up_to| self.parts.store.committed() < *up_to)
    }

    /// Returns why this replica counts as faulty although it runs, or `None` if it does not.
    pub fn silence(&self) -> Option<Silence> {
        let safety = &self.parts.safety;
        if !safety.is_away() {
            return self.returning.filter(|returning| !returning.is_durable).map(|_| Silence::Returns);
        }
        Some(match &self.asking {
            Some(asking) if safety.abstains() == FORGOTTEN => {
                Silence::Asks { missing: self.parts.quorum.quorum() - asking.answered.len() }
            }
            _ => Silence::Abstains { up_to: safety.abstains() },
        })
    }
}
