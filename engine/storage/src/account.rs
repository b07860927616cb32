//! CPU time by account. A replica works on several threads, some of them short-lived, and several replicas may share a
//! process.
//!
//! A thread started with [`spawn`] belongs to the account of the thread that starts it.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

thread_local! {
    static CURRENT: RefCell<Option<CpuAccount>> = const { RefCell::new(None) };
}

/// CPU time of a group of threads.
#[derive(Clone, Default)]
pub struct CpuAccount(Arc<Mutex<Threads>>);

#[derive(Default)]
struct Threads {
    /// Whether the whole process belongs to the account.
    is_process: bool,
    running: Vec<libc::clockid_t>,
    /// CPU time of the threads that have ended, in nanoseconds.
    ended_ns: u64,
}

impl CpuAccount {
    /// Creates an account of the whole process.
    pub fn of_process() -> CpuAccount {
        CpuAccount(Arc::new(Mutex::new(Threads { is_process: true, ..Threads::default() })))
    }

    /// Returns the account of the calling thread.
    pub fn current() -> Option<CpuAccount> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Until the guard is dropped, adds the threads that the calling thread starts, but not the calling thread itself.
    pub fn lend(&self) -> Lent {
        Lent(CURRENT.replace(Some(self.clone())))
    }

    /// Adds the calling thread, including its time so far, and the threads that it starts.
    pub fn enter(&self) -> Entered {
        let clock = thread_clock();
        self.threads().running.extend(clock);
        Entered { account: self.clone(), clock, _lent: self.lend() }
    }

    /// Returns the user plus system time spent so far, in nanoseconds.
    pub fn spent_ns(&self) -> u64 {
        let threads = self.threads();
        if threads.is_process {
            return read(libc::CLOCK_PROCESS_CPUTIME_ID);
        }
        threads.ended_ns + threads.running.iter().map(|clock| read(*clock)).sum::<u64>()
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard during whose life threads started by this thread belong to the account.
#[must_use = "dropping it ends the loan"]
pub struct Lent(Option<CpuAccount>);

impl Drop for Lent {
    fn drop(&mut self) {
        // An ending thread may have dropped its thread-locals already.
        let _ = CURRENT.try_with(|current| *current.borrow_mut() = self.0.take());
    }
}

/// Guard during whose life the time of this thread counts.
#[must_use = "dropping it ends the count"]
pub struct Entered {
    account: CpuAccount,
    clock: Option<libc::clockid_t>,
    _lent: Lent,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(clock) = self.clock else { return };
        let mut threads = self.account.threads();
        if let Some(at) = threads.running.iter().position(|running| *running == clock) {
            threads.running.swap_remove(at);
            threads.ended_ns += read(clock);
        }
    }
}

/// Starts a thread that belongs to the account of the calling thread, if any.
///
/// # Errors
/// If the operating system cannot start a thread.
pub fn spawn<T: Send + 'static>(
    builder: Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let account = CpuAccount::current();
    builder.spawn(move || {
        let _entered = account.map(|account| account.enter());
        work()
    })
}

/// Returns the CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU clock of the calling thread, which other threads may read.
fn thread_clock() -> Option<libc::clockid_t> {
    let mut clock = 0;
    // SAFETY: the calling thread exists, and the call writes one clock id to `clock`.
    (unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) } == 0).then_some(clock)
}

/// Reads a clock in nanoseconds; 0 if the system call fails.
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to `time`.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}
