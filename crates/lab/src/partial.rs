//! Runs that a signal ends before their time: what was measured until then is a result all the same, and says so.

use quorate_node::interrupt;

/// Whether a run may go on: no signal has asked the process to end.
pub(crate) fn goes_on() -> bool {
    interrupt::requested().is_none()
}

/// What a result that is not whole says of itself: which signal came, and how far the run had come. None if no signal came.
pub(crate) fn partial(so_far: impl FnOnce() -> String) -> Option<String> {
    interrupt::requested().map(|signal| format!("ended by {signal} {}", so_far()))
}

/// The line of a table that says so.
pub(crate) fn line(partial: Option<&String>) -> String {
    partial.map_or_else(String::new, |text| format!(" PARTIAL    {text}\n"))
}
