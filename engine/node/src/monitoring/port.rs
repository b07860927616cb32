//! The port through which other threads ask a replica's event loop for its status.

use quorate_storage::Waker;
use quorate_types::Status;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Time for the event loop to answer. An iteration takes milliseconds, unless a command of the application or a disk
/// holds it up.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Age up to which a status is given again: requests cost the event loop at most this often.
pub const STATUS_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of requests that wait for an answer; beyond it, the oldest gets none.
const MAX_WAITING: usize = 64;

/// Phase in the life of an event loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    /// It restores the replica from its journal.
    Restoring = 0,
    Running = 1,
    /// It writes and sends what the replica has signed.
    Stopping = 2,
}

/// Reason why there is no status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NoStatus {
    #[error("restores its state from the journal")]
    Restoring,
    #[error("is stopping")]
    Stopping,
    #[error("its event loop makes no progress: no answer within {} s", ANSWER_TIMEOUT.as_secs())]
    Stuck,
}

#[derive(Default)]
struct State {
    phase: AtomicU8,
    is_asked: AtomicBool,
    waiting: Mutex<Vec<Sender<Arc<Status>>>>,
}

impl State {
    fn waiting(&self) -> MutexGuard<'_, Vec<Sender<Arc<Status>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The event loop's end of the port.
#[derive(Clone, Default)]
pub struct StatusPort(Arc<State>);

impl StatusPort {
    /// Records a new phase.
    pub fn enter(&self, phase: Phase) {
        self.0.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// Returns whether a status is needed.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Relaxed)
    }

    /// Answers everybody who waits.
    pub fn answer(&self, status: Status) {
        self.0.is_asked.store(false, Ordering::SeqCst);
        let (status, waiting) = (Arc::new(status), std::mem::take(&mut *self.0.waiting()));
        // Who has stopped waiting needs no answer.
        waiting.iter().for_each(|asker| drop(asker.send(status.clone())));
    }

    /// Returns the other end. `waker` ends the event loop's wait.
    pub fn reader(&self, waker: Waker) -> StatusReader {
        StatusReader { state: self.0.clone(), waker, last: Mutex::default() }
    }
}

/// The end of the port for all other threads.
pub struct StatusReader {
    state: Arc<State>,
    waker: Waker,
    last: Mutex<Option<(Instant, Arc<Status>)>>,
}

impl StatusReader {
    /// Returns a status of the last [`STATUS_INTERVAL`]. Waits for the event loop for at most [`ANSWER_TIMEOUT`].
    ///
    /// # Errors
    /// If the event loop does not run yet, or no more, or does not answer.
    pub fn read(&self) -> Result<Arc<Status>, NoStatus> {
        match self.state.phase.load(Ordering::SeqCst) {
            phase if phase == Phase::Restoring as u8 => return Err(NoStatus::Restoring),
            phase if phase == Phase::Stopping as u8 => return Err(NoStatus::Stopping),
            _ => {}
        }
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, status)) = last().as_ref().filter(|(at, _)| at.elapsed() < STATUS_INTERVAL) {
            return Ok(status.clone());
        }
        let (sender, answer) = channel();
        {
            let mut waiting = self.state.waiting();
            if waiting.len() == MAX_WAITING {
                waiting.remove(0);
            }
            waiting.push(sender);
        }
        self.state.is_asked.store(true, Ordering::SeqCst);
        (self.waker)();
        match answer.recv_timeout(ANSWER_TIMEOUT) {
            Ok(status) => {
                *last() = Some((Instant::now(), status.clone()));
                Ok(status)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(NoStatus::Stuck),
        }
    }
}
