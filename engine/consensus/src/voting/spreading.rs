//! Batches that this replica has disseminated and that no quorum has acknowledged yet.
//!
//! Bundles are disseminated at once. Their batches are paced, because each batch costs every replica one signature and
//! the verification of n-f signatures. A batch is closed when few others wait for acknowledgements, so batches grow
//! with the load and with the distance to the other replicas.

use crate::config::Config;
use crate::data::batches::{Batch, Entry, MAX_BATCH_BUNDLES};
use crate::data::digest_map::{DigestMap, Salt};
use crate::voting::tally::{Counting, Tally};
use quorate_types::{Digest, Height, Quorum, ReplicaId, Signers, Subject, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of batches that wait for acknowledgements. While one is on its way, the next one fills.
const MAX_UNACKNOWLEDGED: usize = 2;
/// Minimum interval between two batches in a committee of up to [`REPLICAS_PER_INTERVAL`]. It is proportionally longer
/// in a larger committee, because each replica verifies the certificates of all.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Number of replicas whose batches a replica handles in each [`MIN_INTERVAL`].
const REPLICAS_PER_INTERVAL: usize = 8;
/// Number of view timeouts for which a batch waits for a quorum before its bundles are sent again in another batch.
pub const PATIENCE: u32 = 4;
/// Maximum factor by which that time grows. It doubles with each consecutive batch that no quorum acknowledged.
const MAX_PATIENCE_FACTOR: u32 = 8;

struct Sent {
    batch: Arc<Batch>,
    due: Time,
    /// Replicas that have acknowledged it.
    stored_by: Signers,
}

/// Batch that a quorum did not acknowledge in time.
pub struct Overdue {
    /// Bundles of the batch that still need a certificate.
    pub bundles: Vec<Digest>,
    /// Replicas that have not acknowledged it.
    pub missed_by: Vec<ReplicaId>,
}

/// Bundles that this replica has disseminated and that are not certified yet.
pub struct Spreading {
    me: ReplicaId,
    quorum: Quorum,
    /// Bundles that are in no batch yet.
    open: VecDeque<Entry>,
    /// Bundles that are open or in one of the batches below.
    mine: DigestMap<()>,
    sent: BTreeMap<u64, Sent>,
    /// Number of the last batch.
    last: u64,
    last_at: Option<Time>,
    interval: Duration,
    patience: Duration,
    factor: u32,
    /// Acknowledgements of these batches.
    pub tally: Tally,
}

impl Spreading {
    pub fn new(config: &Config, quorum: Quorum, me: ReplicaId, salt: Salt) -> Spreading {
        let counting = |_| Counting { by_height: true, certified: true };
        Spreading {
            me,
            quorum,
            open: VecDeque::new(),
            mine: DigestMap::with_hasher(salt),
            sent: BTreeMap::new(),
            last: 0,
            last_at: None,
            interval: MIN_INTERVAL * quorum.replicas().div_ceil(REPLICAS_PER_INTERVAL) as u32,
            patience: config.view_timeout() * PATIENCE,
            factor: 1,
            tally: Tally::with(quorum, counting),
        }
    }

    /// Adds a bundle that is disseminated in this step. Returns false if it was added before.
    pub fn add(&mut self, entry: Entry) -> bool {
        let is_new = self.mine.insert(entry.bundle, ()).is_none();
        if is_new {
            self.open.push_back(entry);
        }
        is_new
    }

    /// Returns when to act next: to close a batch or to abandon one.
    pub fn next_act(&self) -> Option<Time> {
        let free = !self.open.is_empty() && self.sent.len() < MAX_UNACKNOWLEDGED;
        let close = free.then(|| self.last_at.map_or(Time(0), |last| last + self.interval));
        self.sent.values().map(|sent| sent.due).chain(close).min()
    }

    /// Closes a batch of the open bundles that still need a certificate, if it is time. Blocks up to the height `until`
    /// may rely on the batch.
    pub fn close(&mut self, now: Time, until: Height, needs: impl Fn(&Digest) -> bool) -> Option<Arc<Batch>> {
        let is_early = self.last_at.is_some_and(|last| now < last + self.interval);
        if is_early || self.sent.len() >= MAX_UNACKNOWLEDGED {
            return None;
        }
        let mut entries = Vec::new();
        while let Some(entry) = self.open.pop_front() {
            if needs(&entry.bundle) {
                entries.push(entry);
            } else {
                self.mine.remove(&entry.bundle);
            }
            if entries.len() == MAX_BATCH_BUNDLES {
                break;
            }
        }
        if entries.is_empty() {
            return None;
        }
        self.last += 1;
        self.last_at = Some(now);
        let batch = Arc::new(Batch::new(self.me, self.last, until, entries));
        let due = now + self.patience * self.factor;
        self.sent.insert(self.last, Sent { batch: batch.clone(), due, stored_by: Signers::empty() });
        Some(batch)
    }

    /// Removes the batches that no quorum has acknowledged in time. Those of their bundles that still need a
    /// certificate become open again.
    pub fn take_overdue(&mut self, now: Time, needs: impl Fn(&Digest) -> bool) -> Vec<Overdue> {
        let due: Vec<u64> = self.sent.iter().filter(|(_, sent)| sent.due <= now).map(|(number, _)| *number).collect();
        let mut overdue = Vec::new();
        for number in due {
            let sent = self.sent.remove(&number).expect("the batch was found just now");
            self.factor = (self.factor * 2).min(MAX_PATIENCE_FACTOR);
            let (open, done): (Vec<Entry>, Vec<Entry>) =
                sent.batch.entries().iter().copied().partition(|entry| needs(&entry.bundle));
            for entry in &done {
                self.mine.remove(&entry.bundle);
            }
            let others = (0..self.quorum.replicas() as u16).map(ReplicaId).filter(|other| *other != self.me);
            let missed_by = others.filter(|other| !sent.stored_by.contains(*other)).collect();
            overdue.push(Overdue { bundles: open.iter().map(|entry| entry.bundle).collect(), missed_by });
            self.open.extend(open);
        }
        self.forget();
        overdue
    }

    /// Returns whether an acknowledgement is for a batch that waits for it, and records its sender.
    pub fn awaits(&mut self, subject: &Subject, from: ReplicaId) -> bool {
        let Some(sent) = self.sent.get_mut(&subject.height.0) else { return false };
        let awaits = sent.batch.subject() == *subject;
        if awaits {
            sent.stored_by.insert(from);
        }
        awaits
    }

    /// Removes and returns the batch that a quorum has acknowledged, or `None` if it is overdue.
    pub fn take_certified(&mut self, subject: &Subject) -> Option<Arc<Batch>> {
        let number = subject.height.0;
        self.sent.get(&number).filter(|sent| sent.batch.subject() == *subject)?;
        let batch = self.sent.remove(&number)?.batch;
        for entry in batch.entries() {
            self.mine.remove(&entry.bundle);
        }
        self.factor = 1;
        self.forget();
        Some(batch)
    }

    fn forget(&mut self) {
        let first = self.sent.first_key_value().map_or(self.last + 1, |(number, _)| *number);
        self.tally.forget_up_to(Height(first - 1));
    }

    /// Checks the invariants after a step.
    pub fn invariants(&mut self) {
        assert!(self.sent.len() <= MAX_UNACKNOWLEDGED, "unacknowledged batches are bounded");
        self.tally.invariants();
    }
}
