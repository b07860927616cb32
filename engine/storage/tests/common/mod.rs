//! Helpers of the journal's tests.

#![allow(dead_code, reason = "each test file uses a part")]

pub mod hanging;

use bytes::Bytes;
use quorate_storage::{
    Fsync, Identity, Journal, JournalError, JournalOptions, MIN_SEGMENT_BYTES, SimulatedDisk, SteppedJournal,
};
use quorate_types::{EpochId, ReplicaId};

pub type Stepped = SteppedJournal<SimulatedDisk>;

pub fn identity() -> Identity {
    Identity { epoch: EpochId::of_name("tested"), replica: ReplicaId(2) }
}

/// Small segments, so that short tests use many.
pub fn small() -> JournalOptions {
    JournalOptions { segment_bytes: MIN_SEGMENT_BYTES, capacity_bytes: 1 << 20, ..JournalOptions::default() }
}

pub fn disk(seed: u64) -> SimulatedDisk {
    SimulatedDisk::new(seed, Fsync::Always)
}

pub fn open(disk: &SimulatedDisk) -> Result<Stepped, JournalError> {
    SteppedJournal::open(disk.clone(), identity(), &small())
}

/// Returns `bytes` bytes of content that differ for each record.
pub fn record(id: u64, bytes: usize) -> Bytes {
    (0..bytes as u64).map(|at| (id.wrapping_mul(31).wrapping_add(at * 7) % 251 + 1) as u8).collect()
}

pub fn kept(journal: &dyn Journal) -> Vec<(u64, Bytes)> {
    let mut records = Vec::new();
    journal.replay(&mut |id, record| records.push((id, Bytes::copy_from_slice(record)))).expect("the journal is whole");
    records
}

pub fn ids(journal: &dyn Journal) -> Vec<u64> {
    kept(journal).into_iter().map(|(id, _)| id).collect()
}

/// Appends the records with these ids as one group and writes it.
pub fn write(journal: &mut Stepped, group: impl IntoIterator<Item = u64>, bytes: usize) {
    for id in group {
        journal.append(id, record(id, bytes)).expect("room");
    }
    journal.commit().expect("no failure yet");
    while journal.step() {}
}
