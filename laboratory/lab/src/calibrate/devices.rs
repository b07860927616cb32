//! The journal's writes, and answers to requests for the status.

use super::{CalibrateError, US_PER_NS, time};
use bytes::Bytes;
use quorate_applications::{ApplicationKind, Executor};
use quorate_simulator::CostTable;
use quorate_storage::{FileJournal, Identity, Journal, JournalOptions};
use quorate_types::{EpochId, Height, ReplicaId, ReplicaReply, encode_message};
use std::hint::black_box;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Groups of records that are written, and the size of a group: a vote and the proposal before it.
const GROUPS: u64 = 200;
const GROUP_BYTES: usize = 512;
/// Maximum time for one group, and for all.
const MAX_GROUP: Duration = Duration::from_secs(5);
const MAX_FLUSHES: Duration = Duration::from_secs(3);
/// Name of the journal that is written in the directory, and removed at the end.
const JOURNAL: &str = "calibrate-journal";
/// Blocks in the history of the status that is measured.
const BLOCKS_IN_HISTORY: u64 = 1024;

/// Measures the time from handing a group of records to the journal until it is durable: the median, because a disk
/// that is busy for a moment delays some groups by much.
pub(super) fn flushes(table: &mut CostTable, directory: Option<&Path>) -> Result<(), CalibrateError> {
    table.journal.flush_us = match directory {
        Some(directory) => flush_us(&directory.join(JOURNAL))?,
        None => 0.0,
    };
    Ok(())
}

fn flush_us(path: &Path) -> Result<f64, CalibrateError> {
    let identity = Identity { epoch: EpochId::of_name("calibrate"), replica: ReplicaId(0) };
    let (durable, wakes) = mpsc::channel();
    let mut took = Vec::new();
    {
        let mut journal = FileJournal::open(path, identity, &JournalOptions::default())?;
        journal.set_waker(Arc::new(move || {
            // Nobody waits any more once the last group is durable.
            let _ = durable.send(());
        }));
        let start = Instant::now();
        for id in 1..=GROUPS {
            let begun = Instant::now();
            journal.append(id, Bytes::from(vec![7; GROUP_BYTES]))?;
            journal.commit()?;
            while journal.durable()? < Some(id) && begun.elapsed() < MAX_GROUP {
                // A waker that was called before the wait has left its message in the channel.
                let _ = wakes.recv_timeout(MAX_GROUP);
            }
            took.push(begun.elapsed().as_nanos() as f64 * US_PER_NS);
            if start.elapsed() > MAX_FLUSHES {
                break;
            }
        }
    }
    // What cannot be removed is a file too many, and the journal was measured.
    let _ = std::fs::remove_dir_all(path);
    took.sort_by(f64::total_cmp);
    Ok(took[took.len() / 2])
}

/// Measures making a status with a whole history and encoding it, and its size.
pub(super) fn statuses(table: &mut CostTable) -> Result<(), CalibrateError> {
    let epoch = EpochId::of_name("calibrate");
    let mut executor = Executor::new(ApplicationKind::LOG.make(), &epoch);
    let mut replies = Vec::new();
    for height in 1..=BLOCKS_IN_HISTORY {
        executor.execute(Height(height), &[], &mut replies);
    }
    let make = || {
        // The rest of a status is a few counters.
        let json = Bytes::from(serde_json::to_vec(&executor.history()).expect("digests have a form in JSON"));
        encode_message(&ReplicaReply::Status { id: 1, json })
    };
    table.gateway.status_bytes = make().len() as u32;
    table.gateway.status_us = US_PER_NS
        * time(|| {
            black_box(make());
        });
    Ok(())
}
