//! Smoothed round trip and retransmission timeout, as Linux computes them from RFC 6298.

use super::TcpOptions;
use super::clock::in_ticks;

/// Estimate of round trips. Numbers are nanoseconds.
#[derive(Clone, Debug)]
pub struct RoundTrips {
    options: TcpOptions,
    smoothed: Option<u64>,
    /// Four mean deviations.
    deviation: u64,
    /// The largest deviation of the current round trip, at least the minimum timeout.
    largest: u64,
    /// What the timeout adds to the smoothed round trip.
    margin: u64,
    /// The current round trip ends once this is acknowledged.
    until: u64,
    /// The smallest round trip.
    pub smallest: u64,
    timeout: u64,
}

impl RoundTrips {
    pub fn new(options: TcpOptions) -> RoundTrips {
        let timeout = in_ticks(options.rto_initial_ns, options.tick_ns);
        RoundTrips {
            options,
            smoothed: None,
            deviation: 0,
            largest: 0,
            margin: 0,
            until: 0,
            smallest: u64::MAX,
            timeout,
        }
    }

    /// Returns the smoothed round trip; `None` before the first one.
    pub fn smoothed(&self) -> Option<u64> {
        self.smoothed
    }

    /// Returns the retransmission timeout.
    pub fn timeout(&self) -> u64 {
        self.timeout
    }

    /// Doubles the timeout, after it has expired.
    pub fn back_off(&mut self) {
        self.timeout = (2 * self.timeout).min(self.options.rto_max_ns);
    }

    /// Adds a round trip. `acknowledged` and `next` are the first bytes that are not acknowledged and not sent.
    pub fn measured(&mut self, trip: u64, acknowledged: u64, next: u64) {
        self.smallest = self.smallest.min(trip);
        let least = self.options.rto_min_ns;
        match self.smoothed {
            None => {
                (self.smoothed, self.deviation) = (Some(trip), 2 * trip);
                self.margin = self.deviation.max(least);
                (self.largest, self.until) = (self.margin, next);
            }
            Some(smoothed) => {
                self.smoothed = Some(smoothed - smoothed / 8 + trip / 8);
                self.deviate(trip, smoothed);
                if acknowledged > self.until {
                    self.margin -= self.margin.saturating_sub(self.largest) / 4;
                    (self.until, self.largest) = (next, least);
                }
            }
        }
        let timeout = self.smoothed.unwrap_or(0) + self.margin;
        self.timeout = in_ticks(timeout, self.options.tick_ns).min(self.options.rto_max_ns);
    }

    /// Updates the deviation. A round trip that is much shorter counts an eighth, as it makes no timeout too short.
    fn deviate(&mut self, trip: u64, smoothed: u64) {
        let (off, quarter) = (trip.abs_diff(smoothed), self.deviation / 4);
        if trip < smoothed && off > quarter {
            self.deviation += (off - quarter) / 8;
        } else {
            self.deviation = self.deviation - quarter + off;
        }
        self.largest = self.largest.max(self.deviation);
        self.margin = self.margin.max(self.largest);
    }
}
