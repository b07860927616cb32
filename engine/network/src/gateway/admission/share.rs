//! What a replica's own clients may have executed although other replicas' clients fill the cluster.
//!
//! The clients of another replica can fill network cards and blocks. Then the work of this replica's clients waits as
//! long as everybody's, however little it is, and refusing it would shorten nothing. So a replica refuses nothing while
//! its clients use less than nearly 1/n of what the cluster executes.

use super::{per_second, share_of};

/// A replica refuses nothing while its clients use less than this part of 1/n of what the cluster executes. If all
/// replicas are overloaded alike, each uses about 1/n, and only the limits of their queues count.
const PART: [u64; 2] = [7, 8];
/// That holds while the work that waits is no more than the replica's share in this many target times. A replica whose
/// own network card is too slow for its share would queue without end otherwise.
const MAX_TARGETS: u64 = 2;
/// Minimum time over which the rate of the cluster is measured.
const WINDOW_NS: u64 = 500_000_000;
/// A rate is the highest one in the last one to two of these periods.
const RATE_PERIOD_NS: u64 = 5_000_000_000;

/// The highest rate measured lately, in work per second; 0: not measured.
#[derive(Default)]
pub(super) struct Rate {
    /// In this period and the one before.
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

/// Share of this replica's clients in what the cluster executes.
pub(super) struct Share {
    replicas: u64,
    /// Work executed by the cluster since the start, at the last observation.
    executed: u64,
    rate: Rate,
    /// Beginning of the measurement of the rate, and the work executed until then.
    began: u64,
    before: u64,
    /// Part of the share that the clients have not used; below zero if they have used more.
    credit: i64,
}

impl Share {
    pub fn new(replicas: usize) -> Share {
        Share { replicas: replicas.max(1) as u64, executed: 0, rate: Rate::default(), began: 0, before: 0, credit: 0 }
    }

    /// Notes the work that the cluster has executed since the start. `target` is the target for the time in the queue.
    pub fn observe(&mut self, now: u64, executed: u64, target: u64) {
        let news = executed.saturating_sub(self.executed);
        self.executed = executed;
        let lasted = now.saturating_sub(self.began);
        // Until the window is over, this is a lower bound.
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

    /// Returns whether a bundle may wait because of the share, in addition to a queue.
    pub fn has_room(&self, queue: u64, work: u64, target: u64) -> bool {
        self.credit > 0 && queue.saturating_add(work) <= self.in_target(target).saturating_mul(MAX_TARGETS)
    }

    /// Returns the share in one target time.
    fn in_target(&self, target: u64) -> u64 {
        share_of(self.rate.get(), target, 1_000_000_000) / self.replicas
    }
}

fn signed(work: u64) -> i64 {
    i64::try_from(work).unwrap_or(i64::MAX)
}
