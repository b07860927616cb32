//! A journal can be read while it is written and truncated.

use bytes::Bytes;
use quorate_storage::{FileJournal, Fsync, Identity, Journal, JournalOptions, holder, read};
use quorate_types::{EpochId, ReplicaId};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

/// Minimum number of records written while they are read.
const LAST_RECORD: u64 = 20_000;

#[test]
fn a_reader_beside_the_writer_sees_no_damage() {
    let directory = std::env::temp_dir().join(format!("quorate-reading-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    let identity = Identity { epoch: EpochId::of_name("reading"), replica: ReplicaId(1) };
    let options = JournalOptions {
        segment_bytes: 256 << 10,
        capacity_bytes: 8 << 20,
        fsync: Fsync::Never,
        ..JournalOptions::default()
    };
    let mut journal = FileJournal::open(&directory, identity, &options).expect("the journal can be created");
    assert_eq!(holder(&directory), Some(std::process::id()));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last_seen = Vec::new();
            // Read until segments have been added and removed.
            while last_seen.last() < Some(&LAST_RECORD) {
                let (ids, found) =
                    read(&directory, Vec::new, |ids, id, _| ids.push(id)).expect("the journal can be read");
                assert!(found.damage.is_none(), "{:?}", found.damage);
                assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "records are missing");
                last_seen.extend(ids.last().copied());
            }
            is_over.store(true, Ordering::Relaxed);
            last_seen
        });
        let mut id = 0;
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..10 {
                id += 1;
                journal.append(id, Bytes::from(vec![id as u8; 700])).expect("the record fits");
            }
            journal.commit().expect("the journal can be written");
            while journal.durable().expect("the journal can be written") < Some(id) {
                std::thread::yield_now();
            }
            if id.is_multiple_of(500) {
                journal.truncate(id - 400).expect("the journal can be truncated");
            }
        }
        let seen = reader.join().expect("every reading succeeds");
        assert!(seen.is_sorted(), "the journal grows: {seen:?}");
    });
    drop(journal);
    assert_eq!(holder(&directory), None);
    fs::remove_dir_all(&directory).expect("the directory can be removed");
}
