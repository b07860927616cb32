//! Durations of writes: percentiles of the latest, and a write that does not end.

use crate::common::hanging::Hanging;
use crate::common::{disk, identity, record, small};
use quorate_storage::{FileJournal, Journal};
use quorate_types::status::WriteTimes;
use std::sync::{Arc, RwLock};
use std::time::Duration;

fn write(journal: &mut dyn Journal, id: u64) {
    journal.append(id, record(id, 100)).expect("room");
    journal.commit().expect("the disk is sound");
}

fn wait_until_durable(journal: &mut dyn Journal, id: u64) {
    while journal.durable().expect("the disk is sound") < Some(id) {
        std::thread::yield_now();
    }
}

#[test]
fn a_write_that_does_not_end_is_seen_and_counts_once_it_has() {
    let answers = Arc::new(RwLock::new(()));
    let medium = Hanging { disk: disk(1), answers: answers.clone() };
    let mut journal = FileJournal::on(medium, identity(), &small()).expect("a new journal");
    for id in 0..5 {
        write(&mut journal, id);
        wait_until_durable(&mut journal, id);
    }
    let times = journal.write_times().expect("it measures");
    assert_eq!((times.writes, times.pending_us), (5, 0));
    assert!(times.p50_us <= times.p99_us && times.p99_us <= times.max_us, "{times:?}");

    let held = Duration::from_millis(30);
    let closed = answers.write().expect("nobody panics with it");
    write(&mut journal, 5);
    while journal.write_times().expect("it measures").pending_us < held.as_micros() as u64 {
        std::thread::yield_now();
    }
    assert_eq!(journal.write_times().expect("it measures").writes, 5);
    drop(closed);
    wait_until_durable(&mut journal, 5);
    let times = journal.write_times().expect("it measures");
    assert_eq!((times.writes, times.all.count()), (6, 6));
    assert!(times.all.sum_us >= times.max_us, "{times:?}");
    assert!(times.max_us >= held.as_micros() as u64, "{times:?}");
}

#[test]
fn slow_and_hanging_disks_are_named_and_fast_ones_are_not() {
    let fast = WriteTimes {
        writes: 1_000,
        p50_us: 2_000,
        p99_us: 90_000,
        max_us: 900_000,
        pending_us: 100_000,
        ..WriteTimes::default()
    };
    assert_eq!(fast.attention(), None);
    let slow = WriteTimes { p50_us: 80_000, ..fast };
    let told = slow.attention().expect("it is slow");
    assert_eq!(told, "has a slow disk: a write of the journal takes 80 ms (median; p99 90, max 900 ms)");
    let hanging = WriteTimes { pending_us: 7_000_000, ..fast };
    assert_eq!(
        hanging.attention().expect("it hangs"),
        "waits for its disk: a write of the journal has not ended for 7 s"
    );
    assert_eq!(WriteTimes { writes: 3, ..slow }.attention(), None, "a few writes at the start say nothing");
}
