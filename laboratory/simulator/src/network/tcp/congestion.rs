//! Congestion window: Reno (RFC 5681), with proportional rate reduction (RFC 6937) after a loss, in segments.

/// Window of a new connection (RFC 6928).
const INITIAL_WINDOW: u32 = 10;
/// Minimum slow-start threshold (RFC 5681, 3.1).
const LEAST_THRESHOLD: u32 = 2;

/// Congestion window of one direction.
#[derive(Clone, Debug)]
pub struct Congestion {
    pub window: u32,
    threshold: u32,
    /// Acknowledged segments that have not yet increased the window.
    credit: u32,
    /// Whether the window was full since `usage_until` was set.
    is_limited: bool,
    most_out: u32,
    usage_until: u64,
    reduction: Option<Reduction>,
}

/// A window reduction in progress.
#[derive(Clone, Debug)]
struct Reduction {
    before: u32,
    delivered: u32,
    sent: u32,
}

impl Default for Congestion {
    fn default() -> Congestion {
        Congestion {
            window: INITIAL_WINDOW,
            threshold: u32::MAX,
            credit: 0,
            is_limited: false,
            most_out: 0,
            usage_until: 0,
            reduction: None,
        }
    }
}

impl Congestion {
    /// Records the segments in flight after sending, and whether they fill the window. A window that is not full does
    /// not grow (RFC 7661).
    pub fn used(&mut self, is_full: bool, out: u32, acknowledged: u64, next: u64) {
        if acknowledged >= self.usage_until || is_full || (!self.is_limited && out > self.most_out) {
            (self.is_limited, self.most_out, self.usage_until) = (is_full, out, next);
        }
    }

    /// Increases the window for acknowledged segments.
    pub fn grow(&mut self, acknowledged: u32) {
        let is_slow_start = self.window < self.threshold;
        let is_used = self.is_limited || (is_slow_start && self.window < 2 * self.most_out);
        if !is_used {
            return;
        }
        let mut left = acknowledged;
        if is_slow_start {
            let by = left.min(self.threshold - self.window);
            self.window += by;
            left -= by;
        }
        self.credit += left;
        let rounds = self.credit / self.window;
        self.credit -= rounds * self.window;
        self.window += rounds;
    }

    fn halve(&mut self) {
        self.threshold = (self.window / 2).max(LEAST_THRESHOLD);
        self.credit = 0;
    }

    /// Begins to halve the window.
    pub fn begin_reduction(&mut self) {
        self.halve();
        self.reduction = Some(Reduction { before: self.window, delivered: 0, sent: 0 });
    }

    /// Sets the window during a reduction, so that half as many segments are sent as are delivered.
    pub fn reduce(&mut self, delivered: u32, in_flight: u32, advanced_without_loss: bool) {
        let Some(reduction) = &mut self.reduction else { return };
        if delivered == 0 {
            return;
        }
        reduction.delivered += delivered;
        let sends = if in_flight > self.threshold {
            let due = u64::from(self.threshold) * u64::from(reduction.delivered);
            (due.div_ceil(u64::from(reduction.before.max(1))) as u32).saturating_sub(reduction.sent)
        } else {
            let catches_up = reduction.delivered.saturating_sub(reduction.sent).max(delivered);
            (catches_up + u32::from(advanced_without_loss)).min(self.threshold - in_flight)
        };
        self.window = in_flight + sends.max(u32::from(reduction.sent == 0));
    }

    /// Counts a segment that was sent during a reduction.
    pub fn sent(&mut self) {
        if let Some(reduction) = &mut self.reduction {
            reduction.sent += 1;
        }
    }

    /// Ends a reduction after all segments sent before it are acknowledged.
    pub fn end_reduction(&mut self) {
        if self.reduction.take().is_some() {
            self.window = self.threshold;
        }
    }

    /// Halves the window immediately, as after a probe that repaired a loss.
    pub fn reduce_at_once(&mut self) {
        self.halve();
        self.window = self.threshold;
    }

    /// Restarts after a timeout with one segment beyond those in flight. Of several consecutive timeouts, only the
    /// first one halves the threshold.
    pub fn restart(&mut self, in_flight: u32, is_first: bool) {
        if is_first {
            self.halve();
        }
        self.reduction = None;
        self.window = in_flight + 1;
    }

    /// Halves the window for each idle timeout, down to a new connection's window.
    pub fn rested(&mut self, timeouts: u64) {
        self.threshold = self.threshold.max(self.window / 4 * 3);
        let least = self.window.min(INITIAL_WINDOW);
        let shrunk = self.window.checked_shr(u32::try_from(timeouts).unwrap_or(u32::MAX)).unwrap_or(0);
        self.window = shrunk.max(least);
    }
}
