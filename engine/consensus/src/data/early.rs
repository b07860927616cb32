//! Batches that arrived before their bundles, and certificates that arrived before their batches. This happens if a
//! transport does not keep the order of frames.
//!
//! Such a batch waits until its bundles have arrived, or until its spreader lists them again; a certificate waits
//! unverified for its batch for the same time. Each spreader has a separate limit, and only its own messages cause its
//! waiting batches to be examined, so a faulty spreader delays nobody else.

use crate::data::batches::{Batch, Entry};
use quorate_types::{Certificate, Digest, Quorum, ReplicaId, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of waiting batches of one spreader; beyond it, the oldest is dropped. A spreader closes a batch every
/// 10 ms, and a transport that repairs a loss within a long round trip delays bundles by several tenths of a second.
pub const MAX_EARLY_BATCHES: usize = 64;
/// Maximum number of bundles in the waiting batches of one spreader, 40 bytes each, so 640 KiB.
pub const MAX_EARLY_BUNDLES: usize = 1 << 14;
/// Maximum number of one spreader's certificates that wait for their batches; beyond it, the oldest is dropped.
pub const MAX_EARLY_CERTIFICATES: usize = 64;

struct Early {
    batch: Arc<Batch>,
    came: Time,
    /// Number of its leading bundles that are known to have arrived.
    here: usize,
}

/// The batches that wait for bundles, and the certificates that wait for batches.
pub struct EarlyBatches {
    waiting: Vec<VecDeque<Early>>,
    /// By spreader, with their arrival times.
    certificates: Vec<VecDeque<(Time, Certificate)>>,
    patience: Duration,
}

impl EarlyBatches {
    /// Creates an empty collection. A batch waits for at most `patience`: then its spreader lists its bundles again.
    pub fn new(quorum: Quorum, patience: Duration) -> EarlyBatches {
        let n = quorum.replicas();
        let waiting = (0..n).map(|_| VecDeque::new()).collect();
        EarlyBatches { waiting, certificates: vec![VecDeque::new(); n], patience }
    }

    /// Adds a batch. Returns the number of older ones that it displaces.
    pub fn add(&mut self, now: Time, batch: Arc<Batch>) -> usize {
        if self.get(batch.spreader(), &batch.digest()).is_some() {
            return 0;
        }
        let waiting = &mut self.waiting[batch.spreader().index()];
        let before = waiting.len();
        let mut bundles: usize = waiting.iter().map(|early| early.batch.entries().len()).sum();
        while waiting.len() >= MAX_EARLY_BATCHES || bundles + batch.entries().len() > MAX_EARLY_BUNDLES {
            let Some(oldest) = waiting.pop_front() else { break };
            bundles -= oldest.batch.entries().len();
        }
        let displaced = before - waiting.len();
        waiting.push_back(Early { batch, came: now, here: 0 });
        displaced
    }

    /// Returns a spreader's batch if it is waiting.
    pub fn get(&self, spreader: ReplicaId, batch: &Digest) -> Option<&Arc<Batch>> {
        self.waiting[spreader.index()].iter().map(|early| &early.batch).find(|early| early.digest() == *batch)
    }

    /// Keeps a certificate whose batch has not arrived yet. Returns the number of older ones that it displaces.
    pub fn add_certificate(&mut self, now: Time, spreader: ReplicaId, certificate: Certificate) -> usize {
        let waiting = &mut self.certificates[spreader.index()];
        if waiting.iter().any(|(_, other)| *other == certificate) {
            return 0;
        }
        let displaced = usize::from(waiting.len() >= MAX_EARLY_CERTIFICATES && waiting.pop_front().is_some());
        waiting.push_back((now, certificate));
        displaced
    }

    /// Removes and returns the certificates that waited for a batch. They are unverified.
    pub fn take_certificates(&mut self, batch: &Batch) -> Vec<Certificate> {
        let (waiting, subject) = (&mut self.certificates[batch.spreader().index()], batch.subject());
        let mut taken = Vec::new();
        waiting.retain(|(_, certificate)| {
            let is_of_batch = certificate.subject == subject;
            if is_of_batch {
                taken.push(certificate.clone());
            }
            !is_of_batch
        });
        taken
    }

    /// Removes and returns the batches of a spreader whose bundles have all arrived, each with its own arrival time.
    pub fn take_whole(&mut self, spreader: ReplicaId, is_here: impl Fn(&Entry) -> bool) -> Vec<(Time, Arc<Batch>)> {
        let mut whole = Vec::new();
        self.waiting[spreader.index()].retain_mut(|early| {
            let missing = &early.batch.entries()[early.here..];
            early.here += missing.iter().take_while(|entry| is_here(entry)).count();
            let waits = early.here < early.batch.entries().len();
            if !waits {
                whole.push((early.came, early.batch.clone()));
            }
            waits
        });
        whole
    }

    /// Forgets a batch that a quorum has acknowledged.
    pub fn forget(&mut self, batch: &Batch) {
        self.waiting[batch.spreader().index()].retain(|early| early.batch.digest() != batch.digest());
    }

    /// Forgets the batches and certificates that have waited too long. Returns the spreader of each batch.
    pub fn expire(&mut self, now: Time) -> Vec<ReplicaId> {
        let mut expired = Vec::new();
        for waiting in &mut self.waiting {
            let old = waiting.iter().take_while(|early| early.came + self.patience <= now).count();
            expired.extend(waiting.drain(..old).map(|early| early.batch.spreader()));
        }
        for waiting in &mut self.certificates {
            waiting.retain(|(came, _)| *came + self.patience > now);
        }
        expired
    }

    /// Returns the number of waiting batches, and of bundles in them.
    pub fn len(&self) -> (usize, usize) {
        let batches = || self.waiting.iter().flatten();
        (batches().count(), batches().map(|early| early.batch.entries().len()).sum())
    }

    /// Returns the number of waiting certificates.
    pub fn certificates(&self) -> usize {
        self.certificates.iter().map(VecDeque::len).sum()
    }
}
