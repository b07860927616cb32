//! Runs that a signal ends early. Their measurements up to then are a result, marked as partial.

use quorate_node::interrupt;

/// Returns whether the run may continue: no signal has asked the process to end.
pub(crate) fn goes_on() -> bool {
    interrupt::requested().is_none()
}

/// Returns the note of a partial result: the signal that ended the run, and its progress. `None` without a signal.
pub(crate) fn partial(so_far: impl FnOnce() -> String) -> Option<String> {
    interrupt::requested().map(|signal| format!("ended by {signal} {}", so_far()))
}
