//! Real files: reopening, truncation, locking, identity, both flush methods, and the writer thread.

use crate::common::{identity, ids, kept, record, small};
use bytes::Bytes;
use quorate_storage::{FileJournal, Flush, Fsync, Identity, Journal, JournalError, JournalOptions, inspect, repair};
use quorate_types::EpochId;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

/// Directory removed after the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Temporary {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("quorate-journal-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Temporary(path)
    }

    /// Counts the files by inode, so that a file renamed during counting counts once.
    fn files(&self) -> usize {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().ino()).collect::<BTreeSet<_>>().len()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> FileJournal {
    FileJournal::open(path, identity(), &small()).unwrap()
}

/// Appends records as one group and waits until they are durable.
fn write(journal: &mut FileJournal, group: std::ops::Range<u64>) {
    let (sender, woken) = mpsc::channel();
    journal.set_waker(Arc::new(move || sender.send(()).unwrap_or_default()));
    for id in group.clone() {
        journal.append(id, record(id, 100)).unwrap();
    }
    journal.commit().unwrap();
    while journal.durable().unwrap() < Some(group.end - 1) {
        woken.recv().expect("the waker is called when more is durable");
    }
}

#[test]
fn durable_records_are_there_after_reopening_with_every_policy() {
    for fsync in [Fsync::Always, Fsync::Never] {
        for flush in [Flush::WriteThrough, Flush::Fdatasync] {
            let directory = Temporary::new();
            let options = JournalOptions { fsync, flush, ..small() };
            let mut journal = FileJournal::open(&directory.0, identity(), &options).unwrap();
            assert_eq!(journal.name().contains("never synced"), fsync == Fsync::Never);
            assert_eq!(journal.durable().unwrap(), None);
            assert_eq!((journal.recovery().records, journal.recovery().last_id), (0, None));
            for group in 0..10 {
                write(&mut journal, group * 5..group * 5 + 5);
            }
            let expected: Vec<(u64, Bytes)> = (0..50).map(|id| (id, record(id, 100))).collect();
            assert_eq!(kept(&journal), expected);
            drop(journal);
            let mut journal = FileJournal::open(&directory.0, identity(), &options).unwrap();
            assert_eq!(journal.durable().unwrap(), Some(49));
            assert_eq!(journal.recovery().records, 50);
            assert_eq!(kept(&journal), expected);
            write(&mut journal, 50..51);
            assert_eq!(ids(&journal), (0..51).collect::<Vec<_>>());
        }
    }
}

#[test]
fn dropping_writes_the_committed_records_only() {
    let directory = Temporary::new();
    let mut journal = open(&directory.0);
    (0..100).for_each(|id| journal.append(id, record(id, 300)).unwrap());
    journal.commit().unwrap();
    journal.append(100, record(100, 300)).unwrap();
    drop(journal);
    assert_eq!(ids(&open(&directory.0)), (0..100).collect::<Vec<_>>());
}

#[test]
fn truncation_removes_whole_segments_and_makes_room() {
    let directory = Temporary::new();
    let options = JournalOptions { capacity_bytes: 8 * 2048, ..small() };
    let mut journal = FileJournal::open(&directory.0, identity(), &options).unwrap();
    for group in 0..200 {
        write(&mut journal, group * 3..group * 3 + 3);
        journal.truncate((group * 3).saturating_sub(9)).unwrap();
        // Including files kept for reuse, and the lock.
        assert!(directory.files() <= 8 + 1);
    }
    assert_eq!(ids(&journal), (588..600).collect::<Vec<_>>(), "exactly the records from the last truncation on");
    drop(journal);
    let journal = FileJournal::open(&directory.0, identity(), &options).unwrap();
    let left = ids(&journal);
    assert!(left[0] <= 588 && left[0] > 570, "{left:?}");
    assert_eq!(left, (left[0]..600).collect::<Vec<_>>());
}

#[test]
fn a_full_journal_fails_with_its_capacity() {
    let directory = Temporary::new();
    let options = JournalOptions { capacity_bytes: 2 * 2048, ..small() };
    let mut journal = FileJournal::open(&directory.0, identity(), &options).unwrap();
    let (sender, woken) = mpsc::channel();
    journal.set_waker(Arc::new(move || sender.send(()).unwrap_or_default()));
    let mut durable = None;
    let error = (0..).find_map(|id| {
        journal.append(id, record(id, 1000)).and_then(|()| journal.commit()).unwrap();
        woken.recv().unwrap();
        journal.durable().map(|now| durable = now).err()
    });
    assert!(matches!(error, Some(JournalError::Full { bytes: 4096, capacity: 4096 })), "{error:?}");
    assert!(error.unwrap().to_string().contains("capacity_bytes"));
    assert_eq!(durable, Some(1), "one record of 1000 bytes in each segment");
    assert!(journal.append(99, Bytes::new()).is_err());
    assert!(journal.durable().is_err());
    drop(journal);
    assert_eq!(ids(&FileJournal::open(&directory.0, identity(), &options).unwrap()), [0, 1]);
}

#[test]
fn a_second_opener_is_refused_and_learns_the_holder() {
    let directory = Temporary::new();
    let journal = open(&directory.0);
    let error = FileJournal::open(&directory.0, identity(), &small()).map(drop).unwrap_err();
    assert!(matches!(error, JournalError::Locked { .. }));
    assert!(error.to_string().contains("this process"), "{error}");
    assert!(matches!(repair(&directory.0).unwrap_err(), JournalError::Locked { .. }));
    assert_eq!(inspect(&directory.0, &mut |_, _| {}).unwrap().identity, Some(identity()), "inspecting needs no lock");
    drop(journal);
    open(&directory.0);
}

#[test]
fn another_clusters_directory_is_refused() {
    let directory = Temporary::new();
    drop(open(&directory.0));
    let other = Identity { epoch: EpochId::of_name("other"), ..identity() };
    let error = FileJournal::open(&directory.0, other, &small()).map(drop).unwrap_err();
    assert!(matches!(error, JournalError::ForeignEpoch { .. }), "{error}");
    open(&directory.0);
}

#[test]
fn a_damaged_file_is_refused_with_its_path_and_repaired() {
    use std::os::unix::fs::FileExt;
    let directory = Temporary::new();
    let mut journal = open(&directory.0);
    (0..6).for_each(|group| write(&mut journal, group * 2..group * 2 + 2));
    drop(journal);
    let path = directory.0.join("000000000001.segment");
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 700).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 700).unwrap();
    let error = FileJournal::open(&directory.0, identity(), &small()).map(drop).unwrap_err().to_string();
    // The second record of the group at 512, after 32 and 116 bytes.
    for part in [path.to_str().unwrap(), "byte 660", "--repair"] {
        assert!(error.contains(part), "{error}");
    }
    let report = repair(&directory.0).unwrap();
    assert_eq!((report.records, report.last_id), (7, Some(6)));
    assert!(report.saved.iter().all(|saved| Path::new(saved).is_file()));
    let mut journal = open(&directory.0);
    assert!(journal.recovery().repaired);
    journal.accept_repair().unwrap();
    write(&mut journal, 20..22);
    drop(journal);
    let journal = open(&directory.0);
    assert!(!journal.recovery().repaired);
    assert_eq!(ids(&journal), [0, 1, 2, 3, 4, 5, 6, 20, 21]);
}

#[test]
fn a_truncated_file_is_refused() {
    let directory = Temporary::new();
    let mut journal = open(&directory.0);
    write(&mut journal, 0..2);
    drop(journal);
    let path = directory.0.join("000000000000.segment");
    for bytes in [1024, 100, 0] {
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes).unwrap();
        let error = FileJournal::open(&directory.0, identity(), &small()).map(drop).unwrap_err();
        assert!(matches!(error, JournalError::Corrupt { offset: 0, .. }), "{error}");
    }
}

#[test]
fn a_half_prepared_segment_is_removed_and_foreign_files_stay() {
    let directory = Temporary::new();
    let mut journal = open(&directory.0);
    write(&mut journal, 0..1);
    drop(journal);
    fs::write(directory.0.join("000000000007.preparing"), [0; 100]).unwrap();
    fs::write(directory.0.join("notes.txt"), "kept").unwrap();
    fs::write(directory.0.join("7.segment"), "not a segment name").unwrap();
    assert_eq!(ids(&open(&directory.0)), [0]);
    assert!(!directory.0.join("000000000007.preparing").exists());
    assert!(directory.0.join("notes.txt").exists() && directory.0.join("7.segment").exists());
}

#[test]
fn invalid_options_are_refused_with_the_key() {
    let directory = Temporary::new();
    for (options, key) in [
        (JournalOptions { segment_bytes: 512, ..small() }, "segment_bytes"),
        (JournalOptions { segment_bytes: 4097, ..small() }, "segment_bytes"),
        (JournalOptions { segment_bytes: 1 << 40, capacity_bytes: 1 << 50, ..small() }, "segment_bytes"),
        (JournalOptions { capacity_bytes: 2048, ..small() }, "capacity_bytes"),
    ] {
        let error = FileJournal::open(&directory.0, identity(), &options).map(drop).unwrap_err();
        assert!(error.to_string().contains(key), "{error}");
    }
    assert!(!directory.0.exists());
}

#[test]
fn errors_name_a_directory_that_cannot_be_created_or_does_not_exist() {
    let directory = Temporary::new();
    fs::create_dir(&directory.0).unwrap();
    let path = directory.0.join("file");
    fs::write(&path, "").unwrap();
    let error = FileJournal::open(&path, identity(), &small()).map(drop).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    let missing = directory.0.join("missing");
    for error in [repair(&missing).map(drop).unwrap_err(), inspect(&missing, &mut |_, _| {}).map(drop).unwrap_err()] {
        assert!(error.to_string().contains("missing"), "{error}");
    }
    assert!(!missing.exists(), "inspecting a directory does not create it");
}
