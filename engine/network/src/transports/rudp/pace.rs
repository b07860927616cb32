//! The rate of packets, if they are paced.

use quorate_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Bytes in flight that are always allowed, and the maximum burst.
const LEAST_BYTES: usize = 32 << 10;
/// Ratio of the sending rate to the measured rate: while the rate still grows, and afterwards, so that it can grow.
const FAST: f64 = 2.0;
const STEADY: f64 = 1.25;
/// Growth factor per round above which the rate counts as growing, and the number of rounds without such growth until
/// it does not.
const GROWTH: f64 = 1.25;
const ROUNDS_WITHOUT_GROWTH: u32 = 3;
/// Number of rounds from which the highest rate is taken.
const ROUNDS: usize = 10;
/// Maximum bytes in flight once the rate no longer grows, in products of measured rate and round-trip time: more would
/// fill queues.
const ROUND_TRIPS: f64 = 1.1;

/// State recorded when a packet is sent.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    delivered: u64,
    at: Time,
}

/// Tracks the rate at which the remote acknowledges bytes.
#[derive(Debug)]
pub struct Pace {
    /// Bytes acknowledged so far, and the time of the last acknowledgement.
    delivered: u64,
    delivered_at: Time,
    /// Highest rates of the last rounds, in bytes per second, newest last.
    rates: VecDeque<f64>,
    /// The round ends when this many bytes are acknowledged.
    round_ends: u64,
    best: f64,
    without_growth: u32,
    /// Bytes that may be sent now, and when that was computed.
    credit: f64,
    credit_at: Time,
}

impl Pace {
    pub fn new(now: Time) -> Pace {
        Pace {
            delivered: 0,
            delivered_at: now,
            rates: VecDeque::from([0.0]),
            round_ends: 0,
            best: 0.0,
            without_growth: 0,
            credit: LEAST_BYTES as f64,
            credit_at: now,
        }
    }

    fn highest(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn grows(&self) -> bool {
        self.without_growth < ROUNDS_WITHOUT_GROWTH
    }

    /// Returns the sending rate, in bytes per second; `None` before the first measurement.
    fn rate(&self) -> Option<f64> {
        let rate = if self.grows() { FAST * self.highest() } else { STEADY * self.highest() };
        (rate > 0.0).then_some(rate)
    }

    /// Returns the maximum bytes in flight, given the smallest round-trip time.
    pub fn in_flight(&self, trip: Option<Duration>) -> usize {
        let trips = if self.grows() { FAST } else { ROUND_TRIPS };
        LEAST_BYTES + (trips * self.highest() * trip.unwrap_or_default().as_secs_f64()) as usize
    }

    /// Records that `bytes` bytes were sent.
    pub fn departs(&mut self, now: Time, bytes: usize) -> Departure {
        self.refill(now);
        self.credit -= bytes as f64;
        Departure { delivered: self.delivered, at: now }
    }

    /// Records that `bytes` bytes were acknowledged, which were sent at `left`.
    pub fn arrived(&mut self, now: Time, bytes: usize, left: Departure) {
        self.delivered += bytes as u64;
        self.delivered_at = now;
        let took = now.since(left.at).as_secs_f64();
        if took > 0.0 {
            let rate = (self.delivered - left.delivered) as f64 / took;
            let newest = self.rates.back_mut().expect("there is always a round");
            *newest = newest.max(rate);
        }
        if left.delivered >= self.round_ends {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        self.round_ends = self.delivered;
        let rate = *self.rates.back().expect("there is always a round");
        if rate > self.best * GROWTH {
            (self.best, self.without_growth) = (rate, 0);
        } else {
            self.without_growth = self.without_growth.saturating_add(1);
        }
        self.rates.push_back(0.0);
        if self.rates.len() > ROUNDS {
            self.rates.pop_front();
        }
    }

    fn refill(&mut self, now: Time) {
        let passed = now.since(self.credit_at).as_secs_f64();
        self.credit_at = self.credit_at.max(now);
        let gained = self.rate().map_or(LEAST_BYTES as f64, |rate| rate * passed);
        self.credit = (self.credit + gained).min(LEAST_BYTES as f64);
    }

    /// Returns `None` if a packet may be sent now, and otherwise the time when it may.
    pub fn wait(&mut self, now: Time) -> Option<Time> {
        self.refill(now);
        if self.credit > 0.0 {
            return None;
        }
        let seconds = (1.0 - self.credit) / self.rate()?;
        Some(now + Duration::from_secs_f64(seconds.min(1.0)).max(Duration::from_micros(1)))
    }
}
