//! Costs of journal writes and of answers to status requests.

use super::{CalibrateError, US_PER_NS, time};
use bytes::Bytes;
use quorate_applications::{ApplicationKind, BlockContext, Executor};
use quorate_simulator::CostTable;
use quorate_storage::{FileJournal, Identity, Journal, JournalOptions};
use quorate_types::{EpochId, Height, ReplicaId, ReplicaReply, encode_message};
use std::hint::black_box;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Groups of records to write, and their size: a vote and the preceding proposal.
const GROUPS: u64 = 200;
const GROUP_BYTES: usize = 512;
/// Maximum time for one group. All groups together may take as long.
const MAX_GROUP: Duration = Duration::from_secs(5);
const MAX_FLUSHES: Duration = Duration::from_secs(3);
/// Name of the journal's directory, which is removed at the end.
const JOURNAL: &str = "calibrate-journal";
/// Blocks in the history of the measured status.
const BLOCKS_IN_HISTORY: u64 = 1024;

/// Measures the time from handing a group of records to the journal until it is durable. Takes the median, because a
/// briefly busy disk delays a few groups by much.
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
            // The receiver is gone once the last group is durable.
            let _ = durable.send(());
        }));
        let start = Instant::now();
        for id in 1..=GROUPS {
            let begun = Instant::now();
            journal.append(id, Bytes::from(vec![7; GROUP_BYTES]))?;
            journal.commit()?;
            while journal.durable()? < Some(id) && begun.elapsed() < MAX_GROUP {
                // If the waker fired before the wait, its message is already in the channel.
                let _ = wakes.recv_timeout(MAX_GROUP);
            }
            took.push(begun.elapsed().as_nanos() as f64 * US_PER_NS);
            if start.elapsed() > MAX_FLUSHES {
                break;
            }
        }
    }
    // A leftover file does no harm; the journal was measured.
    let _ = std::fs::remove_dir_all(path);
    took.sort_by(f64::total_cmp);
    Ok(took[took.len() / 2])
}

/// Measures the construction and encoding of a status with a full history, and its size.
pub(super) fn statuses(table: &mut CostTable) -> Result<(), CalibrateError> {
    let epoch = EpochId::of_name("calibrate");
    let mut executor = Executor::new(ApplicationKind::LOG.make(), &epoch);
    let mut replies = Vec::new();
    for height in 1..=BLOCKS_IN_HISTORY {
        executor.execute(BlockContext::untimed(Height(height)), &[], &mut replies);
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
