//! An account counts only the time of its own threads, including ended ones.

use quorate_storage::{CpuAccount, account};
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Returns the CPU time of the calling thread according to the kernel.
fn own_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to `time`.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Works until the calling thread has used `spend` of CPU time. Returns the time used.
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
fn ended_threads_and_descendants_count() {
    let account = CpuAccount::default();
    let entered = thread::spawn({
        let account = account.clone();
        move || {
            let _entered = account.enter();
            let child = account::spawn(thread::Builder::new(), || {
                let grandchild = account::spawn(thread::Builder::new(), || work(SPEND)).expect("a thread");
                work(SPEND) + grandchild.join().expect("the thread ends")
            });
            work(SPEND) + child.expect("a thread").join().expect("the thread ends")
        }
    });
    let known = entered.join().expect("the thread ends");
    // `known` omits the little that a thread does before and after its work.
    let ratio = account.spent_ns() as f64 / known as f64;
    assert!((1.0..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_running_thread_counts_in_its_own_account_only() {
    let (account, other) = (CpuAccount::default(), CpuAccount::default());
    let (ready, is_ready) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let _lent = account.lend();
    let running = account::spawn(thread::Builder::new(), move || {
        ready.send(work(SPEND)).expect("the test waits");
        let _ended = ends.recv();
    });
    let known = is_ready.recv().expect("the thread is working");
    assert!(account.spent_ns() >= known, "a running thread counts");
    assert_eq!(other.spent_ns(), 0);
    let lent = other.lend();
    account::spawn(thread::Builder::new(), || work(SPEND)).expect("a thread").join().expect("the thread ends");
    drop(lent);
    assert!(other.spent_ns() >= SPEND.as_nanos() as u64);
    assert!(account.spent_ns() < known + SPEND.as_nanos() as u64, "the other account's thread does not count here");
    drop(end);
    running.expect("a thread").join().expect("the thread ends");
    let start = Instant::now();
    assert!(CpuAccount::of_process().spent_ns() >= known && start.elapsed() < Duration::from_secs(60));
}
