//! The rate at which packets leave, if they are paced.

use quorate_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Bytes in flight that are always allowed, and the burst that may leave at once.
const LEAST_BYTES: usize = 32 << 10;
/// How much faster than the measured rate packets leave while it still grows, and afterwards, so that it can.
const FAST: f64 = 2.0;
const STEADY: f64 = 1.25;
/// Growth of the rate in a round by which it counts as growing, and rounds without it after which it does not.
const GROWTH: f64 = 1.25;
const ROUNDS_WITHOUT_GROWTH: u32 = 3;
/// Rounds over which the highest rate counts.
const ROUNDS: usize = 10;
/// Round trips' worth of the measured rate that may be in flight once it no longer grows: more would fill queues.
const ROUND_TRIPS: f64 = 1.1;

/// What is noted of a packet when it leaves.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    delivered: u64,
    at: Time,
}

/// Follows the rate at which the remote acknowledges bytes.
#[derive(Debug)]
pub struct Pace {
    /// Bytes acknowledged so far, and when.
    delivered: u64,
    delivered_at: Time,
    /// Highest rates of the last rounds, in bytes per second, newest last.
    rates: VecDeque<f64>,
    /// Bytes that have to be delivered for the round to end.
    round_ends: u64,
    best: f64,
    without_growth: u32,
    /// Bytes that may leave now, and when that was computed.
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

    /// Returns the rate at which packets leave, in bytes per second; `None` before the first measurement.
    fn rate(&self) -> Option<f64> {
        let rate = if self.grows() { FAST * self.highest() } else { STEADY * self.highest() };
        (rate > 0.0).then_some(rate)
    }

    /// Returns how many bytes may be in flight, given the smallest round trip.
    pub fn in_flight(&self, trip: Option<Duration>) -> usize {
        let trips = if self.grows() { FAST } else { ROUND_TRIPS };
        LEAST_BYTES + (trips * self.highest() * trip.unwrap_or_default().as_secs_f64()) as usize
    }

    /// Notes the departure of `bytes` bytes.
    pub fn departs(&mut self, now: Time, bytes: usize) -> Departure {
        self.refill(now);
        self.credit -= bytes as f64;
        Departure { delivered: self.delivered, at: now }
    }

    /// Notes that `bytes` bytes were acknowledged, and when they had left.
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

    /// Returns `None` if a packet may leave now, and otherwise when.
    pub fn wait(&mut self, now: Time) -> Option<Time> {
        self.refill(now);
        if self.credit > 0.0 {
            return None;
        }
        let seconds = (1.0 - self.credit) / self.rate()?;
        Some(now + Duration::from_secs_f64(seconds.min(1.0)).max(Duration::from_micros(1)))
    }
}
