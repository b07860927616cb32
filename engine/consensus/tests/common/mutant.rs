//! Injects a bug into the replicas that a test creates on this thread.

use quorate_consensus::mutants::Bug;
use quorate_consensus::{Protocol, Replica};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Injects the test's bug, if there is one, into a new replica.
pub fn mutate<P: Protocol>(replica: Replica<P>) -> Replica<P> {
    match BUG.get() {
        Some(bug) => replica.mutate(bug),
        None => replica,
    }
}

/// Runs a test whose replicas have a bug. Returns the message of its panic, or `None` if it passes.
pub fn failure(bug: Bug, test: impl FnOnce()) -> Option<String> {
    BUG.set(Some(bug));
    let panic = panic_of(test);
    BUG.set(None);
    panic
}

/// Runs a test. Returns the message of its panic, or `None` if it passes.
pub fn panic_of(test: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(test)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}
