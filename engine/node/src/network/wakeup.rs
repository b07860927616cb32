//! Waking of a replica's thread.

use quorate_storage::Waker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Wakes a replica's thread wherever it waits, now or later. A thread that is working is not disturbed: it checks the
/// flag before it waits again.
#[derive(Clone)]
pub struct Wakeup(Arc<State>);

struct State {
    waker: Mutex<Waker>,
    /// Whether it was called since the replica last looked for work.
    is_set: AtomicBool,
    /// Whether the replica is waiting, or about to.
    is_awaited: AtomicBool,
    /// Whether each call wakes the waiting thread.
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

    /// Waits with `wait`, for at most this timeout, and not at all if it was called since the last wait.
    pub(super) fn while_awaited<T>(&self, timeout: Option<Duration>, wait: impl FnOnce(Option<Duration>) -> T) -> T {
        let Wakeup(state) = self;
        // A call between the two is seen by the second; a call after it sees the first.
        state.is_awaited.store(true, Ordering::SeqCst);
        let timeout = if state.is_set.load(Ordering::SeqCst) { Some(Duration::ZERO) } else { timeout };
        let waited = wait(timeout);
        state.is_awaited.store(false, Ordering::SeqCst);
        // The reason for the call is visible now, and the replica is about to handle it.
        state.is_set.store(false, Ordering::SeqCst);
        waited
    }

    /// Sets the function that wakes the thread: on every call if `is_direct`, or only while the replica is in
    /// [`Wakeup::while_awaited`].
    pub(super) fn set_waker(&self, waker: Waker, is_direct: bool) {
        let Wakeup(state) = self;
        *state.waker.lock().unwrap_or_else(PoisonError::into_inner) = waker;
        state.is_direct.store(is_direct, Ordering::SeqCst);
    }
}
