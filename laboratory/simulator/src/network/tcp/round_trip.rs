//! Smoothed round trip and retransmission timeout, as Linux computes them from RFC 6298.

use super::TcpOptions;
use super::clock::in_ticks;

/// Round-trip estimator. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct RoundTrips {
    options: TcpOptions,
    smoothed: Option<u64>,
    /// Four mean deviations.
    deviation: u64,
    /// Largest deviation of the present round trip, at least the minimum timeout.
    largest: u64,
    /// Difference between the timeout and the smoothed round trip.
    margin: u64,
    /// Position whose acknowledgement ends the present round trip.
    until: u64,
    /// Smallest round trip so far.
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

    /// Adds a round-trip sample. `acknowledged` and `next` are the positions of the first unacknowledged and the first
    /// unsent byte.
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

    /// Updates the deviation. A much shorter round trip counts only an eighth, since it cannot make a timeout too
    /// short.
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
