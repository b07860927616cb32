//! When bundles are to be sent again.
//!
//! Every attempt of the same number waits equally long, so each number has a queue that is in the order of its deadlines: arming
//! and firing take constant time, however many bundles wait.

use quorate_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Attempts after which the wait no longer doubles: the longest wait is 2^6 = 64 times the first.
pub const MAX_BACKOFF_DOUBLINGS: u32 = 6;
/// A bundle that was refused for now is sent again after the first wait divided by this: the replicas are there, and said so.
pub const REFUSED_RETRY_DIVISOR: u32 = 8;
/// Attempts after which the wait after a refusal no longer doubles: then it is as long as the first wait after silence.
const MAX_REFUSED_DOUBLINGS: u32 = REFUSED_RETRY_DIVISOR.ilog2();

/// How often a bundle was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempt(u32);

impl Attempt {
    /// It was sent once.
    pub const FIRST: Attempt = Attempt(0);

    /// It was sent once more.
    pub fn next(self) -> Attempt {
        Attempt(self.0.saturating_add(1))
    }

    /// How often it was sent again.
    pub fn retries(self) -> u32 {
        self.0
    }
}

/// Names one attempt of one bundle; it is void when the slot holds another bundle or the bundle was sent again since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The slot.
    pub slot: u32,
    /// Which of the bundles that the slot has held.
    pub generation: u32,
    /// The attempt that this deadline belongs to.
    pub attempt: Attempt,
}

/// The deadlines of all bundles.
pub struct RetryTimers {
    wait: Duration,
    /// One queue for each number of doublings, then those for refused bundles; each in ascending order of time.
    queues: [VecDeque<(Time, Ticket)>; FIRST_REFUSED + MAX_REFUSED_DOUBLINGS as usize + 1],
}

const FIRST_REFUSED: usize = MAX_BACKOFF_DOUBLINGS as usize + 1;

impl RetryTimers {
    /// No deadlines; the first attempt waits for `wait`, which is longer than nothing.
    pub fn new(wait: Duration) -> Self {
        assert!(!wait.is_zero(), "a retry waits for some time");
        RetryTimers { wait, queues: Default::default() }
    }

    /// Sets the deadline of an attempt that was sent now.
    #[inline]
    pub fn arm(&mut self, now: Time, ticket: Ticket) {
        let doublings = ticket.attempt.0.min(MAX_BACKOFF_DOUBLINGS);
        self.queues[doublings as usize].push_back((now + self.wait.saturating_mul(1 << doublings), ticket));
    }

    /// Sets an earlier deadline for an attempt that was refused.
    pub fn arm_refused(&mut self, now: Time, ticket: Ticket) {
        let doublings = ticket.attempt.0.min(MAX_REFUSED_DOUBLINGS);
        let wait = self.wait / REFUSED_RETRY_DIVISOR * (1 << doublings);
        self.queues[FIRST_REFUSED + doublings as usize].push_back((now + wait, ticket));
    }

    /// A ticket whose deadline has come.
    #[inline]
    pub fn pop_due(&mut self, now: Time) -> Option<Ticket> {
        let due = self.queues.iter_mut().find(|queue| queue.front().is_some_and(|(at, _)| *at <= now))?;
        due.pop_front().map(|(_, ticket)| ticket)
    }

    /// The earliest deadline of a ticket that is still valid; drops the void ones in front of it.
    pub fn next_deadline(&mut self, valid: impl Fn(&Ticket) -> bool) -> Option<Time> {
        let fronts = self.queues.iter_mut().filter_map(|queue| {
            while queue.front().is_some_and(|(_, ticket)| !valid(ticket)) {
                queue.pop_front();
            }
            queue.front().map(|(at, _)| *at)
        });
        fronts.min()
    }
}
