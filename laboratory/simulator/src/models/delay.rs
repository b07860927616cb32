//! Transmission time of a message: link delay, copies of datagrams, timeouts of a stream.

use crate::models::channel::{Channel, Transport};
use crate::models::grid::{Distribution, Grid};
use quorate_types::{Fault, choice};

/// Maximum delay, jitter or timeout in milliseconds.
pub const MAX_DELAY_MS: f64 = 3_600_000.0;
/// Minimum mean delay in milliseconds. Without delay there is no latency to compute.
pub const MIN_DELAY_MS: f64 = 0.001;
/// Truncation point of the normal tail, in standard deviations; drops a mass of 6e-16.
const TAIL_DEVIATIONS: f64 = 8.0;
/// Maximum number of a stream's retransmissions on the grid; later ones count as beyond its end.
const MAX_ATTEMPTS_SHOWN: u32 = 6;
/// Maximum share of messages that may lie beyond the grid's retransmissions.
const LATE_SHARE: f64 = 1e-5;
/// Mean absolute deviation of a normal distribution divided by its standard deviation. RFC 6298 estimates the former.
const MEAN_DEVIATION: f64 = 0.797_884_560_802_865_4;
/// RFC 6298, 2.2: deviations that a timeout adds to the smoothed round trip.
const TIMEOUT_DEVIATIONS: f64 = 4.0;

choice!(
    /// Distribution of a link's delay.
    #[derive(Default)]
    Shape, "shape of the delay",
    /// Normal around `delay_ms` with standard deviation `jitter_ms`, truncated at 0.
    #[default]
    Normal = "normal",
    /// Uniform from `delay_ms` to `delay_ms + jitter_ms`, as with `[jitter]` in a network file.
    Uniform = "uniform",
);

/// One-way delay of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delay {
    pub shape: Shape,
    pub delay_ms: f64,
    pub jitter_ms: f64,
}

impl Delay {
    /// Checks the numbers.
    ///
    /// # Errors
    /// The flag that is out of range, and its valid range.
    pub fn validate(&self) -> Result<(), Fault> {
        milliseconds("--delay-ms", self.delay_ms, MIN_DELAY_MS)?;
        milliseconds("--jitter-ms", self.jitter_ms, 0.0)
    }

    /// Returns the mean of the delay, in ms.
    pub fn mean_ms(&self) -> f64 {
        match self.shape {
            // The truncation at 0 matters only if the jitter is as large as the delay, and the timeout that uses this
            // is approximate.
            Shape::Normal => self.delay_ms,
            Shape::Uniform => self.delay_ms + self.jitter_ms / 2.0,
        }
    }

    /// Returns the standard deviation of the delay, in ms.
    fn deviation_ms(&self) -> f64 {
        match self.shape {
            Shape::Normal => self.jitter_ms,
            Shape::Uniform => self.jitter_ms / 12f64.sqrt(),
        }
    }

    /// Returns the longest delay, in ms.
    pub fn longest_ms(&self) -> f64 {
        match self.shape {
            Shape::Normal => self.delay_ms + TAIL_DEVIATIONS * self.jitter_ms,
            Shape::Uniform => self.delay_ms + self.jitter_ms,
        }
    }

    /// Returns the distribution of the delay on a grid.
    pub fn distribution(&self, grid: Grid) -> Distribution {
        if self.jitter_ms == 0.0 {
            return Distribution::constant(grid, self.delay_ms);
        }
        match self.shape {
            Shape::Uniform => {
                Distribution::with_cdf(grid, |ms| ((ms - self.delay_ms) / self.jitter_ms).clamp(0.0, 1.0))
            }
            Shape::Normal => {
                let upper = |ms: f64| 0.5 * libm::erfc((ms - self.delay_ms) / (self.jitter_ms * 2f64.sqrt()));
                let kept = upper(0.0);
                Distribution::with_cdf(grid, |ms| (1.0 - upper(ms) / kept).max(0.0))
            }
        }
    }
}

/// Links with their delays.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Links {
    pub channel: Channel,
    pub delay: Delay,
    /// Minimum difference between a stream's retransmission timeout and the smoothed round trip, in ms (Linux: 200).
    pub min_rto_ms: f64,
}

/// Distributions of the kinds of messages on one grid. Messages that never arrive are missing from the total mass.
#[derive(Clone, Debug)]
pub struct Times {
    pub pre_prepare: Distribution,
    pub vote: Distribution,
    pub reply: Distribution,
}

impl Links {
    /// Checks the numbers.
    ///
    /// # Errors
    /// The flag that is out of range, and its valid range.
    pub fn validate(&self) -> Result<(), Fault> {
        self.channel.validate()?;
        self.delay.validate()?;
        milliseconds("--min-rto-ms", self.min_rto_ms, MIN_DELAY_MS)
    }

    /// Returns a stream's first retransmission timeout in ms: the smoothed round trip plus the larger of the minimum
    /// and four mean deviations, as in Linux. It doubles with each attempt.
    pub fn timeout_ms(&self) -> f64 {
        let deviation = TIMEOUT_DEVIATIONS * MEAN_DEVIATION * 2f64.sqrt() * self.delay.deviation_ms();
        2.0 * self.delay.mean_ms() + self.min_rto_ms.max(deviation)
    }

    /// Retransmissions of a stream on the grid.
    fn attempts_shown(&self) -> u32 {
        let enough = (1..MAX_ATTEMPTS_SHOWN).find(|attempts| self.channel.loss.powi(*attempts as i32 + 1) < LATE_SHARE);
        enough.unwrap_or(MAX_ATTEMPTS_SHOWN).min(self.channel.retransmissions)
    }

    /// Returns a grid for the sum of `hops` messages, long enough for one of them to use all attempts.
    pub fn grid(&self, hops: usize, points: usize) -> Grid {
        self.grid_with(hops, 0.0, points)
    }

    /// Does the same, extended by `extra_ms`.
    pub fn grid_with(&self, hops: usize, extra_ms: f64, points: usize) -> Grid {
        let mut end_ms = hops as f64 * self.delay.longest_ms() + extra_ms;
        if self.channel.transport == Transport::Tcp && self.channel.loss > 0.0 {
            end_ms += self.timeout_ms() * (2f64.powi(self.attempts_shown() as i32) - 1.0);
        }
        Grid::up_to(end_ms, points)
    }

    /// Returns the distributions of the kinds of messages.
    ///
    /// A datagram's copies leave together with individual delays, so the first arrival counts. A stream retransmits a
    /// segment after 1, 3, 7, .. timeouts, where the latency has plateaus. A lost acknowledgement causes no delay,
    /// because the segment has arrived. Fast retransmission and probes need later segments, which a single request does
    /// not have.
    pub fn times(&self, grid: Grid) -> Times {
        let channel = &self.channel;
        let delay = self.delay.distribution(grid);
        match channel.transport {
            Transport::Udp => {
                let of = |chance: f64, copies: u32, fragments: u32| {
                    let copy = delay.last_of(fragments);
                    // The chance of a single copy, such that at least one copy arrives with the channel's chance.
                    let each = 1.0 - (1.0 - chance).powf(1.0 / f64::from(copies));
                    copy.scaled(each).first_of(copies)
                };
                let vote = of(channel.vote().probability(), channel.repeat + 1, 1);
                let first = channel.pre_prepare().probability();
                let pre_prepare = of(first, channel.pre_prepare_copies(), channel.segments);
                Times { pre_prepare, reply: vote.clone(), vote }
            }
            Transport::Tcp => {
                let segment = self.segment(grid, &delay);
                let pre_prepare = segment.last_of(channel.segments);
                Times { pre_prepare, reply: segment.clone(), vote: segment }
            }
        }
    }

    /// Returns the distribution of a segment over a stream: its delay, plus the timeouts of lost attempts.
    fn segment(&self, grid: Grid, delay: &Distribution) -> Distribution {
        let (loss, timeout) = (self.channel.loss, self.timeout_ms());
        let mut whole = Distribution::never(grid);
        let (mut waited, mut weight) = (0.0, 1.0 - loss);
        for attempt in 0..=self.channel.retransmissions {
            if weight <= 0.0 {
                break;
            }
            whole.add(&Distribution::constant(grid, waited).then(delay).scaled(weight));
            waited += timeout * 2f64.powi(attempt.min(64) as i32);
            weight *= loss;
        }
        whole
    }
}

/// Checks a time given by a flag.
///
/// # Errors
/// If it is not between `least` and [`MAX_DELAY_MS`].
pub fn milliseconds(flag: &str, value: f64, least: f64) -> Result<(), Fault> {
    match (least..=MAX_DELAY_MS).contains(&value) {
        true => Ok(()),
        false => {
            let help = format!("set it between {least} and {MAX_DELAY_MS} milliseconds");
            Err(Fault::new(flag, format!("is {value}"), help))
        }
    }
}
