//! Measures how many batches of 100 512-byte records become durable per second, one after the other, and the latency of
//! a single record: `cargo bench -p quorate-storage [DIRECTORY]`. The first lines show the disk without a journal.
//!
//! Does not use criterion: the figures are rates over several seconds, including the preparation of segments, and each
//! configuration runs for the same time.

use bytes::Bytes;
use quorate_storage::{FileJournal, Flush, Fsync, Identity, Journal, JournalOptions, MemoryJournal, Waker};
use quorate_types::{EpochId, ReplicaId};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const BATCH_RECORDS: u64 = 100;
const RECORD_BYTES: usize = 512;
/// Raw writes wrap around within a file of this size.
const RAW_FILE_BYTES: u64 = 64 << 20;
/// Number of batches that truncation keeps.
const KEPT_BATCHES: u64 = 1000;
const EACH: Duration = Duration::from_secs(3);

/// Runs `one` repeatedly for [`EACH`] and prints its rate and latencies.
fn measure(name: &str, bytes: usize, mut one: impl FnMut()) {
    let mut took_us = Vec::new();
    let started = Instant::now();
    while started.elapsed() < EACH {
        let began = Instant::now();
        one();
        took_us.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let rate = took_us.len() as f64 / started.elapsed().as_secs_f64();
    took_us.sort_by(f64::total_cmp);
    let at = |share: f64| took_us[((took_us.len() - 1) as f64 * share) as usize];
    println!(
        "{name:<44} {rate:>8.0}/s {:>7.1} MB/s   p50 {:>7.0} us   p99 {:>7.0} us   max {:>7.0} us",
        rate * bytes as f64 / 1e6,
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// Measures one method of making writes durable, without a journal.
fn raw(directory: &Path, name: &str, bytes: usize, preallocated: bool, through: bool) {
    let path = directory.join("raw");
    let data = vec![7; bytes];
    let plain = OpenOptions::new().create(true).truncate(true).write(true).open(&path).expect("a file");
    if preallocated {
        plain.write_all_at(&vec![0; RAW_FILE_BYTES as usize], 0).expect("room on the disk");
        plain.sync_all().expect("a sync");
    }
    let flags = if through { libc::O_DSYNC } else { 0 };
    let file = OpenOptions::new().write(true).custom_flags(flags).open(&path).expect("the file");
    let mut at = 0;
    measure(name, bytes, || {
        if preallocated && at + bytes as u64 > RAW_FILE_BYTES {
            at = 0;
        }
        file.write_all_at(&data, at).expect("a write");
        if !through {
            file.sync_data().expect("a sync");
        }
        at += bytes as u64;
    });
    fs::remove_file(path).expect("the file");
}

/// Appends batches of `records`, each after the previous one is durable.
fn batches(name: &str, journal: &mut dyn Journal, records: u64) {
    let record = Bytes::from(vec![7; RECORD_BYTES]);
    let this = thread::current();
    let waker: Waker = Arc::new(move || this.unpark());
    journal.set_waker(waker);
    let mut next = journal.durable().expect("a journal that works").map_or(0, |last| last + 1);
    measure(name, records as usize * RECORD_BYTES, || {
        for id in next..next + records {
            journal.append(id, record.clone()).expect("room");
        }
        next += records;
        journal.commit().expect("a journal that works");
        while journal.durable().expect("a journal that works") < Some(next - 1) {
            thread::park();
        }
        if (next / records).is_multiple_of(KEPT_BATCHES / 2) {
            journal.truncate(next.saturating_sub(KEPT_BATCHES * records)).expect("a journal that works");
        }
    });
}

fn main() {
    let argument = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let base = argument.map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = base.join(format!("quorate-journal-bench-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory to write in");
    let batch = BATCH_RECORDS as usize * RECORD_BYTES;
    println!("in {}; batches of {BATCH_RECORDS} records of {RECORD_BYTES} bytes", base.display());
    for (bytes, what) in [(batch, "batch"), (RECORD_BYTES, "512 B")] {
        raw(&directory, &format!("raw {what}: preallocated, O_DSYNC"), bytes, true, true);
        raw(&directory, &format!("raw {what}: preallocated, fdatasync"), bytes, true, false);
        raw(&directory, &format!("raw {what}: append, fdatasync"), bytes, false, false);
    }
    batches("journal batch: memory", &mut MemoryJournal::default(), BATCH_RECORDS);
    let identity = Identity { epoch: EpochId::of_name("bench"), replica: ReplicaId(0) };
    let ways = [
        ("O_DSYNC", Fsync::Always, Flush::WriteThrough),
        ("fdatasync", Fsync::Always, Flush::Fdatasync),
        ("never synced", Fsync::Never, Flush::WriteThrough),
    ];
    for (way, fsync, flush) in ways {
        for segment_mib in [4, 16, 64] {
            let options =
                JournalOptions { segment_bytes: segment_mib << 20, fsync, flush, ..JournalOptions::default() };
            let at = directory.join("journal");
            let mut journal = FileJournal::open(&at, identity, &options).expect("a journal");
            let name = format!("{way}, segments of {segment_mib} MiB");
            batches(&format!("journal batch: {name}"), &mut journal, BATCH_RECORDS);
            if segment_mib == 16 {
                batches(&format!("journal 1 record: {name}"), &mut journal, 1);
            }
            drop(journal);
            fs::remove_dir_all(at).expect("the journal's directory");
        }
    }
    fs::remove_dir_all(directory).expect("the bench's directory");
}
