//! The replicas to which a client first sends bundles, if replicas spread them.

use quorate_types::{Quorum, ReplicaId, Time};
use std::time::Duration;

/// Maximum time for which a replica is avoided, in multiples of the first retry timeout.
const MAX_AVOIDED_TIMEOUTS: u32 = 64;

/// Avoidance of a replica that let a bundle time out; its duration doubles each time.
#[derive(Clone, Copy, Default)]
struct Avoided {
    until: Time,
    span: Duration,
}

/// Number of consecutive busy replies after which a replica is avoided like one that fails. They count if they are at
/// least a wait apart, and no bundle was executed in between: an overloaded replica continues to execute bundles.
const MAX_BUSY_IN_A_ROW: u32 = 3;

/// Chooses the replica for each bundle.
pub(crate) struct Homes {
    fixed: Option<ReplicaId>,
    next: usize,
    avoided: Vec<Avoided>,
    /// Number of consecutive busy replies of each replica, and the time until which further ones count as the same.
    busy: Vec<(u32, Time)>,
    retry: Duration,
    now: Time,
}

impl Homes {
    /// `fixed` is preferred as long as it serves; without it, bundles go to the replicas in rotation.
    pub fn new(fixed: Option<ReplicaId>, quorum: Quorum, retry: Duration) -> Homes {
        let n = quorum.replicas();
        Homes { fixed, next: 0, avoided: vec![Avoided::default(); n], busy: vec![(0, Time(0)); n], retry, now: Time(0) }
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

    /// Returns the replica to which a bundle is resent: the same one, unless it is avoided.
    pub fn again(&self, home: ReplicaId) -> ReplicaId {
        self.first_from(home.index())
    }

    /// Returns the replica to try after one that did not serve a bundle.
    pub fn after(&self, failed: ReplicaId) -> ReplicaId {
        self.first_from(failed.index() + 1)
    }

    /// Returns the first replica at or after `start` that is not avoided, or else the one at `start`.
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

    /// Records that this replica refused a bundle sent to it alone, and requested a wait.
    pub fn on_busy(&mut self, now: Time, replica: ReplicaId, wait: Duration) {
        self.now = now;
        let (times, until) = &mut self.busy[replica.index()];
        if now < *until {
            return;
        }
        (*times, *until) = (*times + 1, now + wait);
        if *times > MAX_BUSY_IN_A_ROW {
            *times = 0;
            self.on_failure(replica);
        }
    }

    /// Records that a bundle sent to this replica alone was executed.
    pub fn on_success(&mut self, replica: ReplicaId) {
        self.busy[replica.index()].0 = 0;
        self.avoided[replica.index()] = Avoided::default();
    }
}
