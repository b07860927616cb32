//! Schedule of a replica's inquiries about messages that it may have missed.

use crate::config::Config;
use quorate_types::Time;
use std::time::Duration;

/// Number of repeated inquiries after a restart, or after new information: the last one after 63 times
/// `fetch_retry_ms`.
const MAX_INQUIRIES: u32 = 6;

/// Inquiries of a replica that may have missed slots without a trace.
pub(super) struct Inquiry {
    due: Time,
    /// Time until the inquiry after the next one.
    wait: Duration,
    left: u32,
}

impl Inquiry {
    pub fn begin(now: Time, config: &Config) -> Inquiry {
        let wait = Duration::from_millis(config.fetch_retry_ms);
        Inquiry { due: now + wait, wait: wait * 2, left: MAX_INQUIRIES }
    }

    /// Returns the time of the next inquiry.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Schedules the inquiry after this one. Returns false if this one is the last.
    pub fn goes_on(&mut self, now: Time) -> bool {
        (self.due, self.wait, self.left) = (now + self.wait, self.wait * 2, self.left - 1);
        self.left > 0
    }
}
