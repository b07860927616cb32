//! The replicas to which a client sends bundles first, if replicas spread them.

use quorate_types::{Quorum, ReplicaId, Time};
use std::time::Duration;

/// A replica is passed over for at most this many times the first retry timeout.
const MAX_AVOIDED_TIMEOUTS: u32 = 64;

/// How long a replica is passed over because it let a bundle time out; twice as long the next time.
#[derive(Clone, Copy, Default)]
struct Avoided {
    until: Time,
    span: Duration,
}

/// Chooses the replica for each bundle.
pub(crate) struct Homes {
    fixed: Option<ReplicaId>,
    next: usize,
    avoided: Vec<Avoided>,
    retry: Duration,
    now: Time,
}

impl Homes {
    /// `fixed` is preferred as long as it serves; without it, bundles go to all replicas in turn.
    pub fn new(fixed: Option<ReplicaId>, quorum: Quorum, retry: Duration) -> Homes {
        Homes { fixed, next: 0, avoided: vec![Avoided::default(); quorum.replicas()], retry, now: Time(0) }
    }

    /// Returns the replica for a new bundle.
    pub fn choose(&mut self, now: Time) -> ReplicaId {
        self.now = now;
        let start = match self.fixed {
            Some(home) => home.index(),
            None => {
                let start = self.next;
                self.next = (start + 1) % self.avoided.len();
                start
            }
        };
        self.first_from(start)
    }

    /// Returns the replica to try after one that did not serve a bundle.
    pub fn after(&self, failed: ReplicaId) -> ReplicaId {
        self.first_from(failed.index() + 1)
    }

    /// Returns the first replica from `start` on that is not avoided, or else the one at `start`.
    fn first_from(&self, start: usize) -> ReplicaId {
        let n = self.avoided.len();
        let serves = |at: &usize| self.avoided[*at].until <= self.now;
        ReplicaId((start..start + n).map(|at| at % n).find(serves).unwrap_or(start % n) as u16)
    }

    pub fn on_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Records that a bundle sent to this replica alone timed out, or that the replica is disconnected.
    pub fn on_failure(&mut self, replica: ReplicaId) {
        let avoided = &mut self.avoided[replica.index()];
        if avoided.until <= self.now {
            avoided.span = (avoided.span * 2).clamp(self.retry, self.retry.saturating_mul(MAX_AVOIDED_TIMEOUTS));
            avoided.until = self.now + avoided.span;
        }
    }

    /// Records that a bundle sent to this replica alone was executed.
    pub fn on_success(&mut self, replica: ReplicaId) {
        self.avoided[replica.index()] = Avoided::default();
    }
}
