//! When a replica asks again for what it may have missed.

use crate::config::Config;
use quorate_types::Time;
use std::time::Duration;

/// Number of times that a replica asks again after a restart, or after it has learned something: the last time
/// after 63 times `fetch_retry_ms`.
const MAX_INQUIRIES: u32 = 6;

/// Questions of a replica that may have missed slots without a trace.
pub(super) struct Inquiry {
    due: Time,
    /// Time until the question after the next one.
    wait: Duration,
    left: u32,
}

impl Inquiry {
    pub fn begin(now: Time, config: &Config) -> Inquiry {
        let wait = Duration::from_millis(config.fetch_retry_ms);
        Inquiry { due: now + wait, wait: wait * 2, left: MAX_INQUIRIES }
    }

    /// Time of the next question.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Moves on to the question after this one. Returns false if this one is the last.
    pub fn goes_on(&mut self, now: Time) -> bool {
        (self.due, self.wait, self.left) = (now + self.wait, self.wait * 2, self.left - 1);
        self.left > 0
    }
}
