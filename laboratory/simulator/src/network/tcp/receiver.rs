//! The receiving direction: reordering and acknowledgements.

use super::clock::{in_ticks, rings};
use super::{Segment, TcpOptions};
use quorate_types::Time;
use std::ops::Range;

/// Minimum time that Linux delays an acknowledgement to piggyback it on data.
const LEAST_DELAY_NS: u64 = 40_000_000;
/// Maximum time that Linux delays an acknowledgement.
const MOST_DELAY_NS: u64 = 200_000_000;
/// Assumed size of a full segment until a larger one arrives.
const DEFAULT_SEGMENT_BYTES: u32 = 536;
/// Segments that are acknowledged without delay at the start of a connection.
const QUICK: u32 = 16;
/// Maximum SACK ranges per acknowledgement, limited by the space beside the timestamps.
const MAX_HELD: usize = 3;

/// Urgency of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    Now,
    At(Time),
}

/// The receiving direction of an endpoint.
#[derive(Clone, Debug)]
pub struct Receiver {
    options: TcpOptions,
    /// Position of the first missing byte.
    pub expected: u64,
    /// Received ranges beyond it, the latest first.
    early: Vec<Range<u64>>,
    /// Position of the last acknowledgement sent.
    acknowledged: u64,
    echo: Time,
    tells_duplicate: bool,
    due: Option<Due>,
    /// Size of the largest segment so far, which counts as a full one.
    full_bytes: u32,
    /// Small segments since the last acknowledgement.
    small: u32,
    /// Whether this end answers its input, so that acknowledgements wait for the answers.
    is_interactive: bool,
    quick: u32,
    /// Delay of an acknowledgement; adapts to the interval between segments.
    patience: u64,
    last: Option<Time>,
}

impl Receiver {
    pub fn new(options: TcpOptions) -> Receiver {
        Receiver {
            options,
            expected: 0,
            early: Vec::new(),
            acknowledged: 0,
            echo: Time(0),
            tells_duplicate: false,
            due: None,
            full_bytes: DEFAULT_SEGMENT_BYTES,
            small: 0,
            is_interactive: false,
            quick: QUICK,
            patience: LEAST_DELAY_NS,
            last: None,
        }
    }

    /// Returns the time at which a pure acknowledgement has to be sent.
    pub fn timer(&self) -> Option<Time> {
        match self.due {
            Some(Due::At(at)) => Some(at),
            _ => None,
        }
    }

    /// Returns whether an acknowledgement has to be sent now.
    pub fn must_acknowledge(&self) -> bool {
        self.due == Some(Due::Now)
    }

    /// Handles a segment with data. `smoothed` is the smoothed round trip, `timeout` the retransmission timeout.
    pub fn on_data(&mut self, now: Time, segment: &Segment, smoothed: Option<u64>, timeout: u64) {
        let (begin, end) = (segment.begin, segment.begin + u64::from(segment.bytes));
        if begin <= self.acknowledged {
            self.echo = self.echo.max(segment.stamp);
        }
        if end <= self.expected {
            self.tells_duplicate = true;
            (self.is_interactive, self.quick) = (false, QUICK);
            return self.due = Some(Due::Now);
        }
        self.learn_pace(now, timeout);
        if begin > self.expected {
            self.keep_early(begin..end);
            return self.due = Some(Due::Now);
        }
        let had_gaps = !self.early.is_empty();
        self.expected = end;
        while let Some(at) = self.early.iter().position(|range| range.start <= self.expected) {
            self.expected = self.expected.max(self.early.swap_remove(at).end);
        }
        if had_gaps {
            return self.due = Some(Due::Now);
        }
        self.plan(now, segment, smoothed);
    }

    /// Updates the estimated interval between segments.
    fn learn_pace(&mut self, now: Time, timeout: u64) {
        let gap = self.last.replace(now).map(|last| now.0 - last.0);
        match gap {
            Some(gap) if gap <= LEAST_DELAY_NS / 2 => self.patience = self.patience / 2 + LEAST_DELAY_NS / 2,
            Some(gap) if gap < self.patience => self.patience = (self.patience / 2 + gap).min(timeout),
            Some(gap) if gap > timeout => self.quick = QUICK,
            _ => {}
        }
    }

    fn keep_early(&mut self, mut range: Range<u64>) {
        self.early.retain(|other| {
            let touches = other.start <= range.end && range.start <= other.end;
            if touches {
                range = range.start.min(other.start)..range.end.max(other.end);
            }
            !touches
        });
        self.early.insert(0, range);
    }

    /// Schedules the acknowledgement of an in-order segment, which the application reads immediately.
    fn plan(&mut self, now: Time, segment: &Segment, smoothed: Option<u64>) {
        if segment.bytes >= self.full_bytes {
            self.full_bytes = segment.bytes;
        } else if segment.pushes {
            self.small += 1;
        }
        let is_much = self.expected - self.acknowledged > u64::from(self.full_bytes);
        let is_quick = self.quick > 0 && !self.is_interactive;
        let is_read = self.small > 1 || (self.small == 1 && !self.is_interactive);
        if is_much || is_quick || is_read {
            return self.due = Some(Due::Now);
        }
        let at = rings(now, self.delay(smoothed), self.options.tick_ns);
        self.due = match self.due {
            Some(Due::At(earlier)) if earlier.0 <= now.0 + self.patience / 4 => Some(Due::Now),
            Some(Due::At(earlier)) => Some(Due::At(earlier.min(at))),
            _ => Some(Due::At(at)),
        };
    }

    /// Returns the delay of an acknowledgement, below the minimum timeout.
    fn delay(&self, smoothed: Option<u64>) -> u64 {
        let tick = self.options.tick_ns;
        let least_timeout = in_ticks(self.options.rto_min_ns, tick).max(2 * tick);
        let mut delay = self.patience;
        if delay > LEAST_DELAY_NS {
            let trip = smoothed.map_or(MOST_DELAY_NS, |smoothed| smoothed.max(LEAST_DELAY_NS));
            delay = delay.min(MOST_DELAY_NS).min(trip);
        }
        delay.min(least_timeout - tick)
    }

    /// Sends the acknowledgement if it is due.
    pub fn on_timer(&mut self, now: Time, timeout: u64) {
        if self.timer().is_none_or(|at| at > now) {
            return;
        }
        if self.is_interactive {
            (self.is_interactive, self.patience) = (false, LEAST_DELAY_NS);
        } else {
            self.patience = (2 * self.patience).min(timeout);
        }
        self.due = Some(Due::Now);
    }

    /// Writes the acknowledgement into an outgoing segment.
    pub fn acknowledge(&mut self, now: Time, segment: &mut Segment) {
        segment.acknowledges = self.expected;
        segment.holds = self.early.iter().take(MAX_HELD).cloned().collect();
        segment.tells_duplicate = std::mem::take(&mut self.tells_duplicate);
        (segment.stamp, segment.echo) = (now, self.echo);
        self.acknowledged = self.expected;
        (self.due, self.small) = (None, 0);
        self.quick = self.quick.saturating_sub(1);
        if segment.bytes > 0 && self.last.is_some_and(|last| now.0 - last.0 < self.patience) {
            self.is_interactive = true;
        }
    }
}
