//! Histograms of durations with fixed buckets, which a monitor can add up over replicas and time.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds; one more bucket has no bound.
pub const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// Number of durations in each bucket, and their sum, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DurationHistogram {
    /// By bucket, not cumulative; the last one has no bound.
    pub counts: [u64; BOUNDS_US.len() + 1],
    pub sum_us: u64,
}

impl DurationHistogram {
    /// Returns the bucket of a duration: a bound belongs to the bucket that it ends.
    pub fn bucket(us: u64) -> usize {
        BOUNDS_US.partition_point(|bound| *bound < us)
    }

    pub fn record(&mut self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.counts[DurationHistogram::bucket(us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns each bound, in microseconds, with the number of durations up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        BOUNDS_US.into_iter().zip(self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }
}
