//! The wait of a load's thread for its next step, on the node and in the simulator.

use std::time::Duration;

/// Maximum duration of one poll, after which the load checks for a stop and updates its progress.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Maximum wait for which the load sleeps without letting replies end it: it handles them soon enough, all at once.
const MAX_SLEEP: Duration = Duration::from_micros(100);

/// Wait between two steps of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// A poll of the connections with this timeout, which a reply ends.
    Poll(Duration),
    /// A sleep that replies do not end. It is skipped if replies have arrived before it.
    Sleep(Duration),
}

impl Pause {
    /// Returns how to wait for something that is due after this time; `None` if nothing is due.
    pub(super) fn until(due: Option<Duration>) -> Pause {
        let due = due.unwrap_or(MAX_WAIT).min(MAX_WAIT);
        if due > MAX_SLEEP || due.is_zero() { Pause::Poll(due) } else { Pause::Sleep(due) }
    }
}
