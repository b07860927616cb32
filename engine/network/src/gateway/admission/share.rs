//! The share of the cluster's execution that a replica's own clients are entitled to, even if other replicas' clients
//! fill the cluster.
//!
//! The clients of another replica can fill network interfaces and blocks. Then the work of this replica's clients waits
//! as long as everybody's, however little it is, and refusing it would shorten no queue. So a replica refuses nothing
//! while its clients use less than nearly 1/n of the work that the cluster executes.

use super::{per_second, share_of};

/// Fraction of 1/n below which a replica refuses nothing. If all replicas are equally overloaded, each uses about 1/n,
/// and only the limits of their queues apply.
const PART: [u64; 2] = [7, 8];
/// Maximum queue within which the share applies, in multiples of the replica's share per target time. Otherwise a
/// replica whose own network interface is too slow for its share would queue without end.
const MAX_TARGETS: u64 = 2;
/// Minimum time over which the cluster's rate is measured.
const WINDOW_NS: u64 = 500_000_000;
/// A rate is the highest measured in the current period and the one before, so in the last one to two periods.
const RATE_PERIOD_NS: u64 = 5_000_000_000;

/// The highest recently measured rate, in work per second; 0 if not measured.
#[derive(Default)]
pub(super) struct Rate {
    /// Highest rates of the current period and of the one before.
    highest: [u64; 2],
    since: u64,
}

impl Rate {
    pub fn note(&mut self, now: u64, rate: u64) {
        if now >= self.since.saturating_add(RATE_PERIOD_NS) {
            self.highest = [0, self.highest[0]];
            self.since = now;
        }
        self.highest[0] = self.highest[0].max(rate);
    }

    pub fn get(&self) -> u64 {
        self.highest[0].max(self.highest[1])
    }

    pub fn forget(&mut self) {
        self.highest = [0, 0];
    }
}

/// This replica's share of the work that the cluster executes.
pub(super) struct Share {
    replicas: u64,
    /// Work executed by the cluster since the start, as of the last observation.
    executed: u64,
    rate: Rate,
    /// Start of the rate measurement, and the work executed before it.
    began: u64,
    before: u64,
    /// Unused part of the clients' share; negative if they have used more.
    credit: i64,
}

impl Share {
    pub fn new(replicas: usize) -> Share {
        Share { replicas: replicas.max(1) as u64, executed: 0, rate: Rate::default(), began: 0, before: 0, credit: 0 }
    }

    /// Records the work executed by the cluster since the start. `target` is the target of the queueing delay.
    pub fn observe(&mut self, now: u64, executed: u64, target: u64) {
        let news = executed.saturating_sub(self.executed);
        self.executed = executed;
        let lasted = now.saturating_sub(self.began);
        // A lower bound until the window is over.
        self.rate.note(now, per_second(executed.saturating_sub(self.before), lasted.max(WINDOW_NS)));
        if lasted >= WINDOW_NS {
            (self.began, self.before) = (now, executed);
        }
        let gained = share_of(news / self.replicas, PART[0], PART[1]);
        self.credit = self.credit.saturating_add_unsigned(gained).min(signed(self.in_target(target)));
    }

    /// Records that work of the replica's clients was admitted.
    pub fn use_up(&mut self, work: u64, target: u64) {
        let least = -signed(self.in_target(target));
        self.credit = self.credit.saturating_sub_unsigned(work).max(least);
    }

    /// Returns whether the share admits a bundle in addition to a queue.
    pub fn has_room(&self, queue: u64, work: u64, target: u64) -> bool {
        self.credit > 0 && queue.saturating_add(work) <= self.in_target(target).saturating_mul(MAX_TARGETS)
    }

    /// Returns the share per target time.
    fn in_target(&self, target: u64) -> u64 {
        share_of(self.rate.get(), target, 1_000_000_000) / self.replicas
    }
}

fn signed(work: u64) -> i64 {
    i64::try_from(work).unwrap_or(i64::MAX)
}
