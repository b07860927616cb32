//! Threads that verify signatures for a simulated replica, like the node's verifiers.
//!
//! The replica's own questions go to the thread that finishes first. Clients' bundles go, a batch at a time, to idle
//! threads only, so agreement waits for at most one batch.

use super::Node;
use crate::charges::{Checks, nanos};
use crate::faults::FULL_SPEED;
use crate::keys::ModelledCheck;
use crate::ledger::Ledger;
use crate::work::Place;
use quorate_consensus::Protocol;
use quorate_network::gateway::budget::MAX_BATCHES_PER_VERIFIER;
use quorate_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Clients' bundles that are verified together.
struct Batch {
    /// Number of the batch at the desk.
    number: u64,
    check: ModelledCheck,
    checks: Checks,
}

/// The threads of one replica. Without threads, it verifies signatures itself.
pub(super) struct Verifiers {
    /// Time at which each thread becomes idle.
    free: Vec<Time>,
    waiting: VecDeque<Batch>,
    /// Batches in progress or on their way back.
    open: usize,
    /// Charges of the threads.
    ledger: Ledger,
    busy_ns: u64,
}

impl Verifiers {
    pub fn new(threads: usize, has_probes: bool) -> Verifiers {
        Verifiers {
            free: vec![Time(0); threads],
            waiting: VecDeque::new(),
            open: 0,
            ledger: if has_probes { Ledger::with_probes() } else { Ledger::default() },
            busy_ns: 0,
        }
    }

    pub fn exist(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns whether reading clients' bundles must pause.
    pub fn have_enough(&self) -> bool {
        self.exist() && self.open + self.waiting.len() >= MAX_BATCHES_PER_VERIFIER * self.free.len()
    }

    /// Queues bundles for verification by the next idle thread.
    pub fn check_later(&mut self, number: u64, check: ModelledCheck, checks: Checks) {
        self.waiting.push_back(Batch { number, check, checks });
    }

    /// Records that a thread has returned a batch.
    pub fn has_checked(&mut self) {
        self.open -= 1;
    }

    /// Assigns work on `place`, requested at `asked`, to the thread that becomes idle first. Returns its completion
    /// time.
    pub fn work(&mut self, asked: Time, checks: &Checks, speed: u64, place: Place) -> Time {
        let took_ns = nanos(checks.picoseconds * speed / FULL_SPEED);
        self.ledger.go(place);
        checks.charge(&mut self.ledger);
        self.busy_ns += took_ns;
        let first = self.free.iter_mut().min().expect("there are threads");
        *first = (*first).max(asked) + Duration::from_nanos(took_ns);
        *first
    }

    /// Assigns the next batch to an idle thread. Returns its completion time, number and outcome.
    pub fn next_batch(&mut self, now: Time, speed: u64, place: Place) -> Option<(Time, u64, ModelledCheck)> {
        if self.free.iter().all(|free| *free > now) {
            return None;
        }
        let Batch { number, check, checks } = self.waiting.pop_front()?;
        let messages = (check.genuine.len() + check.forged.len()) as u64;
        let done = self.work(now, &checks, speed, Place { messages, ..place });
        self.open += 1;
        Some((done, number, check))
    }

    /// Drops all work after a crash of the replica.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.open = 0;
        self.free.fill(Time(0));
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> u16 {
        self.free.len() as u16
    }

    /// Returns the CPU time of all threads.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

impl<P: Protocol> Node<P> {
    /// Returns the time of a question asked at this point of the iteration.
    pub(super) fn asks_at(&self) -> Time {
        self.now + Duration::from_nanos(nanos(self.spent()))
    }
}
