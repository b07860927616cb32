//! Wakes a replica's thread.

use quorate_storage::Waker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Wakes a replica's thread wherever it waits, now or later. A thread that is at work is not disturbed: it takes
/// note of it before it waits again.
#[derive(Clone)]
pub struct Wakeup(Arc<State>);

struct State {
    waker: Mutex<Waker>,
    /// It was called, and the replica has not looked for work since.
    is_set: AtomicBool,
    /// The replica waits, or is about to.
    is_awaited: AtomicBool,
    /// Each call wakes the thread that waits.
    is_direct: AtomicBool,
}

impl Wakeup {
    pub fn new(waker: Waker) -> Wakeup {
        let flag = || AtomicBool::new(false);
        Wakeup(Arc::new(State { waker: Mutex::new(waker), is_set: flag(), is_awaited: flag(), is_direct: flag() }))
    }

    /// Returns a function that wakes the replica.
    pub fn waker(&self) -> Waker {
        let Wakeup(state) = self.clone();
        Arc::new(move || {
            state.is_set.store(true, Ordering::SeqCst);
            if state.is_awaited.swap(false, Ordering::SeqCst) || state.is_direct.load(Ordering::SeqCst) {
                let waker = state.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
                waker();
            }
        })
    }

    /// Waits by `wait`, with this timeout at most, and not at all if it was called since the last wait.
    pub(super) fn while_awaited<T>(&self, timeout: Option<Duration>, wait: impl FnOnce(Option<Duration>) -> T) -> T {
        let Wakeup(state) = self;
        // A call between the two is seen by the second; one after it sees the first.
        state.is_awaited.store(true, Ordering::SeqCst);
        let timeout = if state.is_set.load(Ordering::SeqCst) { Some(Duration::ZERO) } else { timeout };
        let waited = wait(timeout);
        state.is_awaited.store(false, Ordering::SeqCst);
        // Whatever it was called for is there, and the replica looks for it now.
        state.is_set.store(false, Ordering::SeqCst);
        waited
    }

    /// Wakes by `waker` from now on; always, or only while the replica is in [`Wakeup::while_awaited`].
    pub(super) fn set_waker(&self, waker: Waker, is_direct: bool) {
        let Wakeup(state) = self;
        *state.waker.lock().unwrap_or_else(PoisonError::into_inner) = waker;
        state.is_direct.store(is_direct, Ordering::SeqCst);
    }
}
