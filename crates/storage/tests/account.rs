//! An account has the time of all its threads, also of those that have ended, and of no others.

use quorate_storage::{CpuAccount, account};
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Processor time of the calling thread, as the kernel tells it.
fn own_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to a place that holds one.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Works until the calling thread has spent so much, and says how much that was.
fn work(spend: Duration) -> u64 {
    while own_ns() < spend.as_nanos() as u64 {
        (0..10_000u64).for_each(|number| {
            black_box(number.wrapping_mul(number));
        });
    }
    own_ns()
}

const SPEND: Duration = Duration::from_millis(50);

#[test]
fn threads_that_ended_and_threads_of_threads_count() {
    let account = CpuAccount::default();
    let entered = thread::spawn({
        let account = account.clone();
        move || {
            let _entered = account.enter();
            let child = account::spawn(thread::Builder::new(), || {
                let grandchild = account::spawn(thread::Builder::new(), || work(SPEND)).expect("a thread");
                work(SPEND) + grandchild.join().expect("it ends")
            });
            work(SPEND) + child.expect("a thread").join().expect("it ends")
        }
    });
    let known = entered.join().expect("it ends");
    // What a thread does before its work and after it is little, and is no part of `known`.
    let ratio = account.spent_ns() as f64 / known as f64;
    assert!((1.0..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_thread_that_runs_counts_and_one_of_another_account_does_not() {
    let (account, other) = (CpuAccount::default(), CpuAccount::default());
    let (ready, is_ready) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let _lent = account.lend();
    let running = account::spawn(thread::Builder::new(), move || {
        ready.send(work(SPEND)).expect("the test waits");
        let _ended = ends.recv();
    });
    let known = is_ready.recv().expect("it works");
    assert!(account.spent_ns() >= known, "it still runs, and counts");
    assert_eq!(other.spent_ns(), 0);
    let lent = other.lend();
    account::spawn(thread::Builder::new(), || work(SPEND)).expect("a thread").join().expect("it ends");
    drop(lent);
    assert!(other.spent_ns() >= SPEND.as_nanos() as u64);
    assert!(account.spent_ns() < known + SPEND.as_nanos() as u64, "what the other's thread did is the other's");
    drop(end);
    running.expect("a thread").join().expect("it ends");
    let start = Instant::now();
    assert!(CpuAccount::of_process().spent_ns() >= known && start.elapsed() < Duration::from_secs(60));
}
