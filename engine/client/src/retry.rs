//! Retry timers of bundles.
//!
//! All n-th attempts have the same timeout, so there is one queue for each n, ordered by deadline. Arming and firing
//! take constant time, regardless of the number of outstanding bundles.

use quorate_types::Time;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Maximum number of doublings of the retry timeout, so it grows to at most 2^6 = 64 times the first.
pub const MAX_BACKOFF_DOUBLINGS: u32 = 6;
/// A temporarily refused bundle is resent after the first timeout divided by this, because the replicas are alive.
pub const REFUSED_RETRY_DIVISOR: u32 = 8;
/// Maximum number of doublings of the timeout after a refusal, up to the first timeout.
const MAX_REFUSED_DOUBLINGS: u32 = REFUSED_RETRY_DIVISOR.ilog2();

/// Number of times that a bundle was resent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Attempt(u32);

impl Attempt {
    pub const FIRST: Attempt = Attempt(0);

    pub fn next(self) -> Attempt {
        Attempt(self.0.saturating_add(1))
    }

    pub fn retries(self) -> u32 {
        self.0
    }
}

/// One attempt of one bundle. Void if the slot contains another bundle or the bundle was resent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket {
    pub slot: u32,
    /// Number of previous bundles in the slot.
    pub generation: u32,
    pub attempt: Attempt,
}

/// Deadlines of all bundles.
pub struct RetryTimers {
    wait: Duration,
    /// One queue for each number of doublings, followed by the queues for refused bundles; each ascends by time.
    queues: [VecDeque<(Time, Ticket)>; FIRST_REFUSED + MAX_REFUSED_DOUBLINGS as usize + 1],
    /// Deadlines requested by replicas.
    chosen: BTreeSet<(Time, Ticket)>,
}

const FIRST_REFUSED: usize = MAX_BACKOFF_DOUBLINGS as usize + 1;

impl RetryTimers {
    /// Returns timers without deadlines. `wait` is the timeout of the first attempt, and must be positive.
    pub fn new(wait: Duration) -> Self {
        assert!(!wait.is_zero(), "the retry timeout is zero");
        RetryTimers { wait, queues: Default::default(), chosen: BTreeSet::new() }
    }

    /// Sets the deadline of an attempt sent now.
    #[inline]
    pub fn arm(&mut self, now: Time, ticket: Ticket) {
        let doublings = ticket.attempt.0.min(MAX_BACKOFF_DOUBLINGS);
        self.queues[doublings as usize].push_back((now + self.wait.saturating_mul(1 << doublings), ticket));
    }

    /// Sets an earlier deadline for a refused attempt.
    pub fn arm_refused(&mut self, now: Time, ticket: Ticket) {
        let doublings = ticket.attempt.0.min(MAX_REFUSED_DOUBLINGS);
        let wait = self.wait / REFUSED_RETRY_DIVISOR * (1 << doublings);
        self.queues[FIRST_REFUSED + doublings as usize].push_back((now + wait, ticket));
    }

    /// Sets the deadline of an attempt for which overloaded replicas requested this wait.
    pub fn arm_busy(&mut self, now: Time, wait: Duration, ticket: Ticket) {
        self.chosen.insert((now + wait, ticket));
    }

    /// Removes and returns a ticket past its deadline.
    #[inline]
    pub fn pop_due(&mut self, now: Time) -> Option<Ticket> {
        if self.chosen.first().is_some_and(|(at, _)| *at <= now) {
            return self.chosen.pop_first().map(|(_, ticket)| ticket);
        }
        let due = self.queues.iter_mut().find(|queue| queue.front().is_some_and(|(at, _)| *at <= now))?;
        due.pop_front().map(|(_, ticket)| ticket)
    }

    /// Returns the earliest deadline of a valid ticket, and drops the void ones before it.
    pub fn next_deadline(&mut self, valid: impl Fn(&Ticket) -> bool) -> Option<Time> {
        while self.chosen.first().is_some_and(|(_, ticket)| !valid(ticket)) {
            self.chosen.pop_first();
        }
        let chosen = self.chosen.first().map(|(at, _)| *at);
        let fronts = self.queues.iter_mut().filter_map(|queue| {
            while queue.front().is_some_and(|(_, ticket)| !valid(ticket)) {
                queue.pop_front();
            }
            queue.front().map(|(at, _)| *at)
        });
        fronts.chain(chosen).min()
    }
}
