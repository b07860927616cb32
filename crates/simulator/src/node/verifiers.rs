//! Threads that verify signatures for a simulated replica, as the node's verifiers do.
//!
//! What the replica asks goes to the thread that is done first. Bundles of clients go, a batch at a time, to a thread
//! that is idle, and come back in the order in which they were read; all others wait, so agreement waits for one batch
//! at most.

use super::{Begun, Node, Surroundings};
use crate::charges::{Checks, nanos};
use crate::faults::FULL_SPEED;
use crate::ledger::Ledger;
use crate::work::Place;
use quorate_consensus::data::pool::Source;
use quorate_consensus::{Input, Protocol};
use quorate_gateway::budget::{BUNDLES_PER_BATCH, MAX_BATCHES_PER_VERIFIER};
use quorate_types::stages::MessageKind;
use quorate_types::{Bundle, Digest, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Bundles of clients that are verified together.
struct Batch {
    bundles: Vec<Bundle>,
    sources: Vec<Source>,
    checks: Checks,
}

/// The threads of one replica; none: it verifies itself.
pub(super) struct Verifiers {
    /// When each thread is done.
    free: Vec<Time>,
    waiting: VecDeque<Batch>,
    /// Batches that threads work on, or that come back.
    open: usize,
    /// When the last of them comes back.
    last: Time,
    /// What the threads did.
    ledger: Ledger,
    busy_ns: u64,
}

impl Verifiers {
    pub fn new(threads: usize, has_probes: bool) -> Verifiers {
        Verifiers {
            free: vec![Time(0); threads],
            waiting: VecDeque::new(),
            open: 0,
            last: Time(0),
            ledger: if has_probes { Ledger::with_probes() } else { Ledger::default() },
            busy_ns: 0,
        }
    }

    pub fn exist(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns whether no further bundles of clients may be read for now.
    pub fn have_enough(&self) -> bool {
        self.exist() && self.open + self.waiting.len() >= MAX_BATCHES_PER_VERIFIER * self.free.len()
    }

    /// Returns whether bundles go to the threads: they have this many signatures to verify, or come after others there.
    pub fn take_clients(&self, signatures: u64) -> bool {
        self.exist() && (signatures > 0 || self.open > 0 || !self.waiting.is_empty())
    }

    /// Returns when the first thread is done with work on `place` that it gets at `asked`, and gives it that work.
    pub fn work(&mut self, asked: Time, checks: &Checks, speed: u64, place: Place) -> Time {
        let took_ns = nanos(checks.picoseconds * speed / FULL_SPEED);
        self.ledger.go(place);
        checks.charge(&mut self.ledger);
        self.busy_ns += took_ns;
        let first = self.free.iter_mut().min().expect("there are threads");
        *first = (*first).max(asked) + Duration::from_nanos(took_ns);
        *first
    }

    /// Returns the next batch to come back, and when, if it needs no thread or one is idle.
    fn next_batch(&mut self, now: Time, speed: u64, place: Place) -> Option<(Time, Batch)> {
        let is_known = self.waiting.front()?.checks.picoseconds == 0;
        if !is_known && self.free.iter().all(|free| *free > now) {
            return None;
        }
        let batch = self.waiting.pop_front()?;
        let place = Place { messages: batch.bundles.len() as u64, ..place };
        let done = if is_known { now } else { self.work(now, &batch.checks, speed, place) };
        self.last = self.last.max(done);
        self.open += 1;
        Some((self.last, batch))
    }

    /// Forgets all work, of a replica that has crashed.
    pub fn clear(&mut self) {
        self.waiting.clear();
        (self.open, self.last) = (0, Time(0));
        self.free.fill(Time(0));
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> u16 {
        self.free.len() as u16
    }

    /// Returns the processor time of all threads.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

impl<P: Protocol> Node<P> {
    /// Has the threads verify bundles of clients, which need `signatures` verifications.
    pub(super) fn verify_later(
        &mut self,
        bundles: Vec<Bundle>,
        sources: Vec<Source>,
        mut signatures: u64,
        world: &mut Surroundings<'_, P::Message>,
    ) {
        let (mut bundles, mut sources) = (bundles.into_iter(), sources.into_iter());
        while bundles.len() > 0 {
            let part = bundles.len().min(BUNDLES_PER_BATCH);
            let in_batch = signatures.min(part as u64);
            signatures -= in_batch;
            let checks = world.charges.clients.verify(in_batch);
            let batch = Batch {
                bundles: bundles.by_ref().take(part).collect(),
                sources: sources.by_ref().take(part).collect(),
                checks,
            };
            self.verifiers.waiting.push_back(batch);
        }
    }

    /// Gives waiting batches to idle threads. A turn follows each answer of a thread, so none stays idle.
    pub(super) fn hand_out(&mut self, world: &mut Surroundings<'_, P::Message>) {
        let now = self.asks_at();
        let before = self.ledger.enter(MessageKind::Request, 0);
        let place = self.ledger.place();
        self.ledger.leave(before);
        while let Some((done, Batch { bundles, sources, .. })) = self.verifiers.next_batch(now, self.speed, place) {
            let after_ns = done.since(self.now).as_nanos() as u64;
            world.begun.push(Begun::Question(after_ns, Input::Submit { bundles, sources }));
        }
    }

    /// Takes a batch that comes back, before the replica gets it.
    pub(super) fn take_batch(&mut self, bundles: &[Bundle], world: &mut Surroundings<'_, P::Message>) {
        self.verifiers.open -= 1;
        let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
        world.oracle.heard_clients(self.parts.me, &digests);
    }

    /// Returns the time of a question that the replica asks now.
    pub(super) fn asks_at(&self) -> Time {
        self.now + Duration::from_nanos(nanos(self.spent()))
    }
}
