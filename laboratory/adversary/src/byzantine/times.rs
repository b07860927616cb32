//! Times at which a fault is active.

use quorate_types::Time;
use std::time::Duration;

/// Times at which a fault is active, on its host's clock. The replica is honest at all other times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// First time at which the fault is active.
    pub start: Duration,
    /// Duration of the fault; `None`: to the end of the run.
    pub lasts: Option<Duration>,
    /// Period between starts; `None` if the fault does not recur. Needs `lasts`.
    pub every: Option<Duration>,
}

impl Times {
    /// Returns times from `start` to the end of the run.
    pub fn from(start: Duration) -> Times {
        Times { start, ..Times::default() }
    }

    /// Returns whether the fault is active at `now`.
    pub fn include(&self, now: Time) -> bool {
        let start = Time(0) + self.start;
        if now < start {
            return false;
        }
        let Some(lasts) = self.lasts else { return true };
        let since = now.since(start).as_nanos();
        let into = match self.every {
            Some(every) => since % every.as_nanos().max(1),
            None => since,
        };
        into < lasts.as_nanos()
    }
}
