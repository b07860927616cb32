//! Single requests, sampled uniformly at random from all requests of the measured window.

use quorate_types::Time;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum number of requests that a load samples. Each is a line of the result, and a point of a figure.
pub const MAX_SAMPLES: usize = 100_000;
/// Seed of the sample. It is independent of the load, so that sampling does not change the load's commands.
const SEED: u64 = 0x5a4d_504c;

/// One request of the measured window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Intended send time, from the start of the measured window.
    pub intended: Duration,
    /// Latency; without an answer, the age at the end of the load.
    pub latency_us: u64,
}

/// Reservoir of bounded size, filled by Li's Algorithm L (ACM TOMS 20(4), 1994): every request is equally likely to be
/// in it, and most cost one comparison. Taking every k-th request would alias with bundles, whose commands share their
/// latency.
pub struct Reservoir {
    limit: usize,
    kept: Vec<(Time, u64)>,
    seen: u64,
    /// Number of the next request to keep, counted from 0.
    next: u64,
    weight: f64,
    random: ChaCha8Rng,
}

impl Reservoir {
    /// Creates a reservoir of at most `limit` requests.
    pub fn new(limit: usize) -> Reservoir {
        Reservoir {
            limit,
            kept: Vec::with_capacity(limit),
            seen: 0,
            next: if limit == 0 { u64::MAX } else { 0 },
            weight: 1.0,
            random: ChaCha8Rng::seed_from_u64(SEED),
        }
    }

    /// Offers `count` requests with the same intended time and latency.
    #[inline]
    pub fn offer(&mut self, intended: Time, latency_us: u64, count: u64) {
        self.seen = self.seen.saturating_add(count);
        while self.next < self.seen {
            self.keep(intended, latency_us);
        }
    }

    #[cold]
    fn keep(&mut self, intended: Time, latency_us: u64) {
        if self.kept.len() < self.limit {
            self.kept.push((intended, latency_us));
        } else {
            let place = self.random.random_range(0..self.limit);
            self.kept[place] = (intended, latency_us);
        }
        self.next += 1;
        if self.kept.len() == self.limit {
            self.weight *= (self.unit().ln() / self.limit as f64).exp();
            // The cast saturates, and then nothing more is kept.
            let skipped = (self.unit().ln() / (-self.weight).ln_1p()) as u64;
            self.next = self.next.saturating_add(skipped);
        }
    }

    /// Returns a random number above 0, at most 1.
    fn unit(&mut self) -> f64 {
        1.0 - self.random.random::<f64>()
    }

    /// Returns the requests ordered by their intended times, which count from `start`.
    pub fn into_samples(mut self, start: Time) -> Vec<Sample> {
        self.kept.sort_unstable();
        let sample = |(intended, latency_us): (Time, u64)| Sample { intended: intended.since(start), latency_us };
        self.kept.into_iter().map(sample).collect()
    }
}

/// Draws at most `limit` requests from the samples of several loads. Each load is given with its number of requests, so
/// that all requests of all loads are equally likely. Returns them ordered by their intended times.
pub fn merge(parts: Vec<(Vec<Sample>, u64)>, limit: usize) -> Vec<Sample> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut parts: Vec<(Vec<Sample>, u64)> = parts;
    let mut drawn = Vec::new();
    while drawn.len() < limit {
        let left: u64 = parts.iter().map(|(_, requests)| *requests).sum();
        if left == 0 {
            break;
        }
        let mut number = random.random_range(0..left);
        let (samples, requests) = parts
            .iter_mut()
            .find(|(_, requests)| {
                let is_here = number < *requests;
                number = number.saturating_sub(*requests);
                is_here
            })
            .expect("the number is below the sum");
        *requests -= 1;
        if samples.is_empty() {
            break;
        }
        let place = random.random_range(0..samples.len());
        drawn.push(samples.swap_remove(place));
    }
    drawn.sort_unstable_by_key(|sample| (sample.intended, sample.latency_us));
    drawn
}
