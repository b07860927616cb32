//! Counts and estimates of cryptographic work. The test's own clock advances only while work is done.

use quorate_types::Hasher;
use quorate_types::meter::{Primitive, Tallies, Tally, measured, of_this_thread, time_with};
use std::cell::Cell;

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

const SIGNATURE_NS: u64 = 1000;

fn pass(ns: u64) {
    NOW_NS.set(NOW_NS.get() + ns);
}

fn work_of(work: impl FnOnce()) -> Tallies {
    time_with(|| NOW_NS.get());
    let before = of_this_thread();
    work();
    of_this_thread().since(&before)
}

#[test]
fn all_calls_are_counted_and_the_time_of_some_speaks_for_all() {
    let work = work_of(|| {
        for batch in 0..700 {
            let signatures = 1 + batch % 10;
            measured(Primitive::VerifyBatch, signatures, || pass(SIGNATURE_NS * signatures as u64));
        }
    });
    let Tally { calls, items, timed_items, timed_ns } = work.of(Primitive::VerifyBatch);
    assert_eq!((calls, items), (700, 3850));
    assert!(timed_items >= items / 10 && timed_items <= items / 5, "{timed_items} of {items}");
    assert_eq!(timed_ns, SIGNATURE_NS * timed_items);
    assert_eq!(work.of(Primitive::VerifyBatch).estimated_ns(), Some((SIGNATURE_NS * items) as f64));
    let others = Primitive::ALL.into_iter().filter(|other| *other != Primitive::VerifyBatch);
    others.for_each(|other| assert_eq!(work.of(other), Tally::default(), "{other:?}"));
}

#[test]
fn threads_count_for_themselves() {
    let work = work_of(|| {
        std::thread::spawn(|| measured(Primitive::Sign, 1, || ())).join().expect("it does nothing");
    });
    assert_eq!(work, Tallies::default());
}

#[test]
fn hashes_count_their_bytes_and_an_allowance_each() {
    let hash = |bytes: usize| {
        let work = work_of(|| {
            let mut hasher = Hasher::new(*b"test");
            hasher.update(&vec![1; bytes / 2]);
            hasher.update(&vec![1; bytes - bytes / 2]);
            hasher.finish();
        });
        work.of(Primitive::Hash)
    };
    let (empty, long) = (hash(0), hash(1000));
    assert_eq!((empty.calls, long.calls, long.items - empty.items), (1, 1, 1000));
    assert!(empty.items > 0);
}

#[test]
fn nothing_is_estimated_without_a_timed_call() {
    let untimed = Tally { calls: 3, items: 3, timed_items: 0, timed_ns: 0 };
    assert_eq!((untimed.estimated_ns(), Tally::default().estimated_ns()), (None, Some(0.0)));
    let mut sum = Tallies::default();
    sum += work_of(|| measured(Primitive::Mac, 2, || pass(10)));
    assert_eq!((sum.of(Primitive::Mac).calls, sum.of(Primitive::Mac).items), (1, 2));
}

#[test]
fn a_measured_call_returns_what_it_did() {
    assert_eq!(measured(Primitive::Sign, 1, || 7), 7);
}
