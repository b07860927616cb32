//! After a disk failure, the journal fails permanently, reports the reason, and reports nothing more as durable.

use crate::common::hanging::Hanging;
use crate::common::{disk, identity, ids, kept, open, record, small, write};
use bytes::Bytes;
use quorate_storage::{
    Faults, FileJournal, Fsync, Journal, JournalError, JournalOptions, SimulatedDisk, SteppedJournal,
};
use std::sync::{Arc, RwLock, mpsc};
use std::time::Duration;

/// Writes to a threaded journal until it fails. Returns the error and the highest id reported durable before.
fn write_until_failure(journal: &mut FileJournal<SimulatedDisk>) -> (JournalError, Option<u64>) {
    let (sender, woken) = mpsc::channel();
    journal.set_waker(Arc::new(move || sender.send(()).unwrap_or_default()));
    let mut durable = None;
    for id in 0.. {
        if let Err(error) = journal.append(id, record(id, 200)).and_then(|()| journal.commit()) {
            return (error, durable);
        }
        woken.recv().expect("the waker is called for a failure too");
        match journal.durable() {
            Ok(now) => durable = now,
            Err(error) => return (error, durable),
        }
    }
    unreachable!("the journal fails before the ids run out")
}

#[test]
fn every_disk_fault_is_final_and_loses_no_durable_record() {
    type Case = (Faults, i32, &'static str);
    let cases: [Case; 3] = [
        (Faults { errors_per_million: 100_000, ..Faults::default() }, libc::EIO, "check the disk"),
        (Faults { capacity_bytes: Some(3 * 2048), ..Faults::default() }, libc::ENOSPC, "make room"),
        (Faults { read_only: true, ..Faults::default() }, libc::EROFS, "for writing"),
    ];
    for (faults, number, help) in cases {
        for seed in 0..20 {
            let disk = disk(seed);
            let mut journal = FileJournal::on(disk.clone(), identity(), &small()).unwrap();
            disk.set_faults(faults.clone());
            let (error, durable) = write_until_failure(&mut journal);
            let JournalError::Io { source, .. } = &error else { panic!("{error}") };
            assert_eq!(source.raw_os_error(), Some(number));
            assert!(error.to_string().contains(help), "{error}");
            disk.set_faults(Faults::default());
            assert!(journal.append(1 << 40, Bytes::new()).is_err(), "a failure is final, though the disk works again");
            assert!(journal.commit().is_err() && journal.truncate(0).is_err() && journal.durable().is_err());
            drop(journal);
            let mut journal = open(&disk.lose_power()).unwrap();
            assert!(journal.durable().unwrap() >= durable);
            let found = ids(&journal);
            assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_disk_that_hangs_does_not_fill_the_memory() {
    let options = JournalOptions { waiting_bytes: 10_000, ..small() };
    let mut journal = SteppedJournal::open(disk(0), identity(), &options).unwrap();
    for id in 0..100 {
        journal.append(id, record(id, 100)).unwrap();
        journal.commit().unwrap();
    }
    let error = journal.append(100, record(100, 1)).unwrap_err();
    assert!(matches!(error, JournalError::Behind { bytes: 10_001, limit: 10_000 }), "{error}");
    assert!(!journal.step(), "nothing becomes durable after an error");
    let mut journal = SteppedJournal::open(disk(0), identity(), &options).unwrap();
    for id in 0..1000 {
        journal.append(id, record(id, 100)).unwrap();
        journal.commit().unwrap();
        journal.step();
    }
}

#[test]
fn a_replica_whose_disk_hangs_can_exit_with_an_error() {
    let answers = Arc::new(RwLock::new(()));
    let medium = Hanging { disk: disk(0), answers: answers.clone() };
    let options = JournalOptions { waiting_bytes: 10_000, ..small() };
    let mut journal = FileJournal::on(medium, identity(), &options).unwrap();
    let hangs = answers.write().unwrap();
    let error = (0..)
        .find_map(|id| journal.append(id, record(id, 1000)).and_then(|()| journal.commit()).err())
        .expect("the journal falls behind");
    assert!(matches!(error, JournalError::Behind { limit: 10_000, .. }) && error.is_disk_trouble(), "{error}");
    assert_eq!(journal.durable().unwrap_err().to_string(), error.to_string());
    drop(journal);
    drop(hangs);
}

#[test]
fn a_record_larger_than_a_segment_is_refused_by_size() {
    let mut journal = open(&disk(0)).unwrap();
    let capacity = 3 * 511 - 32 - 16;
    write(&mut journal, [0], capacity);
    write(&mut journal, [1], capacity);
    assert_eq!(ids(&journal), [0, 1]);
    let error = journal.append(2, record(2, capacity + 1)).unwrap_err();
    assert!(matches!(error, JournalError::TooLarge { .. }), "{error}");
    assert!(journal.durable().is_err());
}

#[test]
fn all_waiting_records_go_into_the_next_write_as_one_group() {
    let options = JournalOptions { segment_bytes: 1 << 20, capacity_bytes: 4 << 20, ..small() };
    let mut journal = SteppedJournal::open(disk(0), identity(), &options).unwrap();
    for id in 0..1000 {
        journal.append(id, record(id, 100)).unwrap();
        journal.commit().unwrap();
    }
    journal.append(1000, record(1000, 100)).unwrap();
    assert_eq!(journal.durable().unwrap(), None);
    assert!(journal.step());
    assert_eq!(journal.durable().unwrap(), Some(999), "exactly the committed records");
    assert!(!journal.step());
}

#[test]
fn without_syncs_a_power_failure_may_lose_durable_records_but_makes_up_none() {
    let (mut lost, mut refused) = (0, 0);
    for seed in 0..300 {
        let disk = SimulatedDisk::new(seed, Fsync::Never);
        let mut journal = open(&disk).unwrap();
        (0..10).for_each(|group| write(&mut journal, group * 3..group * 3 + 3, 150));
        assert_eq!(journal.name(), "simulated, never synced");
        assert_eq!(journal.durable().unwrap(), Some(29));
        drop(journal);
        assert_eq!(open(&disk).unwrap().durable().unwrap(), Some(29), "the records survive the process");
        let fresh = SimulatedDisk::new(seed, Fsync::Never);
        let mut journal = open(&fresh).unwrap();
        (0..10).for_each(|group| write(&mut journal, group * 3..group * 3 + 3, 150));
        drop(journal);
        match open(&fresh.lose_power()) {
            Ok(journal) => {
                let found = kept(&journal);
                lost += u32::from(found.len() < 30);
                assert_eq!(found, (0..found.len() as u64).map(|id| (id, record(id, 150))).collect::<Vec<_>>());
            }
            Err(error) => {
                assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
                refused += 1;
            }
        }
    }
    assert!(lost > 0 && refused > 0, "{lost} journals lost records, {refused} were refused");
}

#[test]
fn the_same_seed_causes_the_same_faults() {
    let life = |seed| {
        let disk = disk(seed);
        let mut journal = open(&disk).unwrap();
        disk.set_faults(Faults { latency_ns: 50_000..150_000, errors_per_million: 20_000, ..Faults::default() });
        let mut durable = None;
        for id in 0.. {
            if journal.append(id, record(id, 200)).and_then(|()| journal.commit()).is_err() {
                break;
            }
            journal.step();
            durable = journal.durable().ok().flatten().max(durable);
        }
        let busy = disk.take_busy();
        assert!(busy >= Duration::from_nanos(50_000));
        assert_eq!(disk.take_busy(), Duration::ZERO);
        (durable, busy, disk.lose_power().content("000000000000.segment"))
    };
    assert_eq!(life(7), life(7));
    assert_ne!(life(7).1, life(8).1);
}
