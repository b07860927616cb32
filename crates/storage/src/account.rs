//! Processor time by account: a replica works on several threads, of which some end before anybody asks, and several replicas may
//! share a process.
//!
//! A thread of an account has the threads that it starts with [`spawn`] belong to the same account.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

thread_local! {
    static CURRENT: RefCell<Option<CpuAccount>> = const { RefCell::new(None) };
}

/// The processor time of the threads that belong together.
#[derive(Clone, Default)]
pub struct CpuAccount(Arc<Mutex<Threads>>);

#[derive(Default)]
struct Threads {
    /// The whole process belongs to the account.
    is_process: bool,
    running: Vec<libc::clockid_t>,
    /// What those spent that have ended, in nanoseconds.
    ended_ns: u64,
}

impl CpuAccount {
    /// One to which all of this process belongs.
    pub fn of_process() -> CpuAccount {
        CpuAccount(Arc::new(Mutex::new(Threads { is_process: true, ..Threads::default() })))
    }

    /// The one of the calling thread, if it has any.
    pub fn current() -> Option<CpuAccount> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Has the threads that the calling one starts belong to this account, until the guard is dropped. Its own time does not count.
    pub fn lend(&self) -> Lent {
        Lent(CURRENT.replace(Some(self.clone())))
    }

    /// The same, and the calling thread's time counts, from its start on.
    pub fn enter(&self) -> Entered {
        let clock = thread_clock();
        self.threads().running.extend(clock);
        Entered { account: self.clone(), clock, _lent: self.lend() }
    }

    /// User and system time spent so far, in nanoseconds.
    pub fn spent_ns(&self) -> u64 {
        let threads = self.threads();
        match threads.is_process {
            true => read(libc::CLOCK_PROCESS_CPUTIME_ID),
            false => threads.ended_ns + threads.running.iter().map(|clock| read(*clock)).sum::<u64>(),
        }
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it lives, threads that this one starts belong to an account.
#[must_use = "dropping it ends the loan"]
pub struct Lent(Option<CpuAccount>);

impl Drop for Lent {
    fn drop(&mut self) {
        // A thread that ends may have no such place any more.
        let _ = CURRENT.try_with(|current| *current.borrow_mut() = self.0.take());
    }
}

/// While it lives, the time of this thread counts.
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

/// Starts a thread that belongs to the account of this one, if it has any.
///
/// # Errors
/// If the operating system gives no thread.
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

/// The clock of the calling thread's processor time, which other threads may read.
fn thread_clock() -> Option<libc::clockid_t> {
    let mut clock = 0;
    // SAFETY: the calling thread runs, and the call writes one clock's id to a place that holds one.
    (unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) } == 0).then_some(clock)
}

/// A clock's time in nanoseconds; 0 where the system does not tell.
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to a place that holds one.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}
