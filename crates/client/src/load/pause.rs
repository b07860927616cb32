//! How the thread of a load waits for its next step, on the node and in the simulator.

use std::time::Duration;

/// Maximum time to wait in one poll, after which the load checks for a stop and updates its progress.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Resolution of a poll's timeout, which rounds up. The load sleeps instead for shorter waits.
pub(super) const POLL_RESOLUTION: Duration = Duration::from_millis(1);
/// Maximum time to sleep at once, so that a reply does not wait for long.
const SLEEP_SLICE: Duration = Duration::from_micros(100);

/// Wait between two steps of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// A poll of the connections with this timeout, which a reply ends.
    Poll(Duration),
    /// A sleep that replies do not end. It is skipped if replies have arrived before it.
    Sleep(Duration),
}

impl Pause {
    /// Returns how to wait for something that is due after this time; `None` if nothing is.
    pub(super) fn until(due: Option<Duration>) -> Pause {
        let due = due.unwrap_or(MAX_WAIT).min(MAX_WAIT);
        if due >= POLL_RESOLUTION {
            Pause::Poll(Duration::from_millis(due.as_millis() as u64))
        } else if due.is_zero() {
            Pause::Poll(Duration::ZERO)
        } else {
            Pause::Sleep(due.min(SLEEP_SLICE))
        }
    }
}
