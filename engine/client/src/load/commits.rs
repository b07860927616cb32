//! Latencies up to a bundle's commit at one replica, which only a simulator can observe.

use crate::load::histogram::microseconds;
use hdrhistogram::Histogram;
use quorate_types::{Digest, Time};
use std::collections::HashMap;

/// Intended send times of the commands in uncommitted bundles, and the latencies of the others.
pub struct Commits {
    /// Times with the number of commands due then, only for those in the measured window.
    waiting: HashMap<Digest, Vec<(Time, u64)>>,
    pub latency_us: Histogram<u64>,
}

impl Default for Commits {
    fn default() -> Commits {
        Commits { waiting: HashMap::new(), latency_us: microseconds() }
    }
}

impl Commits {
    pub fn on_sent(&mut self, bundle: Digest, intended: impl Iterator<Item = Time>) {
        let mut runs: Vec<(Time, u64)> = Vec::new();
        for at in intended {
            match runs.last_mut() {
                Some((last, count)) if *last == at => *count += 1,
                _ => runs.push((at, 1)),
            }
        }
        if !runs.is_empty() {
            self.waiting.insert(bundle, runs);
        }
    }

    /// Handles the first commit of a bundle; later ones, after a restart of the replica, have no effect.
    pub fn on_committed(&mut self, at: Time, bundle: &Digest) {
        let runs = self.waiting.remove(bundle).unwrap_or_default();
        self.record(at, &runs);
    }

    /// Records the age of uncommitted commands.
    pub fn close(&mut self, now: Time) {
        let waiting = std::mem::take(&mut self.waiting);
        // The iteration order has no effect on a histogram.
        waiting.into_values().for_each(|runs| self.record(now, &runs));
    }

    /// Records commands, given as intended times with the number of commands due then.
    pub fn record(&mut self, now: Time, runs: &[(Time, u64)]) {
        for (intended, count) in runs {
            self.latency_us.saturating_record_n(now.since(*intended).as_micros() as u64, *count);
        }
    }
}
