//! The journal of a simulated replica: its records, the durable ones, and the effects of a crash.
//!
//! While the replica is up, records stay in memory and only their IDs move. The real node's code determines the effect
//! of a crash: the records are written to a simulated disk that loses power, and the journal is opened again.

use crate::faults::Leaves;
use bytes::Bytes;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::seam::RecordId;
use quorate_storage::{Faults, Fsync, Identity, Journal as _, JournalOptions, SimulatedDisk, SteppedJournal};
use quorate_types::{Decoder, Encoder, Wire};

/// Minimum size of a write to the simulated disk.
const GROUP_BYTES: usize = 256 << 10;

/// Records that a replica has written.
#[derive(Default)]
pub struct Journal {
    /// Whether to keep the records for a restart.
    keeps: bool,
    records: Vec<(RecordId, Record)>,
    appended: Option<RecordId>,
    flushing: Option<RecordId>,
    durable: Option<RecordId>,
    /// Whether it ever had a durable record. An empty journal that had one has lost its contents.
    begun: bool,
}

impl Journal {
    /// Returns an empty journal. Without `keeps`, it drops its records.
    pub fn new(keeps: bool) -> Journal {
        Journal { keeps, ..Journal::default() }
    }

    /// Appends a record, which is durable immediately if flushing takes no time.
    pub fn append(&mut self, id: RecordId, record: Record, at_once: bool) {
        if self.keeps {
            self.records.push((id, record));
        }
        self.appended = Some(id);
        if at_once {
            self.durable = Some(id);
        }
    }

    /// Returns whether a record and all before it are durable.
    pub fn has(&self, record: RecordId) -> bool {
        self.durable >= Some(record)
    }

    /// Returns the last durable record.
    pub fn durable(&self) -> Option<RecordId> {
        self.durable
    }

    /// Returns whether there are records to flush, and no flush is in progress.
    pub fn may_flush(&self) -> bool {
        self.flushing.is_none() && self.appended > self.durable
    }

    /// Starts flushing all records, unless a flush is in progress. Returns the last record of the flush.
    pub fn flush(&mut self) -> Option<RecordId> {
        if !self.may_flush() {
            return None;
        }
        self.flushing = self.appended;
        self.flushing
    }

    /// Marks the records up to this one as durable.
    pub fn flushed(&mut self, record: RecordId) {
        self.durable = self.durable.max(Some(record));
        self.flushing = None;
    }

    /// Restores the records that a node finds after a crash. Returns them, and whether the journal is gone. `seed`
    /// distinguishes crashes.
    pub fn recover(&mut self, leaves: Leaves, identity: Identity, seed: u64) -> (Vec<(RecordId, Record)>, bool) {
        self.begun |= self.durable.is_some() || leaves == Leaves::Nothing;
        let durable = self.records.partition_point(|(id, _)| Some(*id) <= self.durable);
        let disk = SimulatedDisk::new(seed, Fsync::Always);
        match leaves {
            Leaves::Nothing => {}
            Leaves::Stopped | Leaves::Written => write(&disk, identity, &self.records),
            Leaves::Flushed => write(&disk, identity, &self.records[..durable]),
            Leaves::Torn => {
                write(&disk, identity, &self.records[..durable]);
                let (unflushed, mut out) = (&self.records[durable..], Encoder::default());
                unflushed.iter().for_each(|(_, record)| record.encode(&mut out));
                let power_fails_after_bytes = Some(seed % (out.len() as u64 + 1));
                disk.set_faults(Faults { power_fails_after_bytes, ..Faults::default() });
                write(&disk, identity, unflushed);
            }
        }
        self.records = read(&disk.lose_power(), identity);
        self.appended = self.records.last().map(|(id, _)| *id);
        (self.durable, self.flushing) = (self.appended, None);
        (self.records.clone(), self.begun && self.records.is_empty())
    }
}

/// Returns options with the smallest possible segments, since a simulated disk zeroes each segment first.
fn options(largest_record: usize) -> JournalOptions {
    let segment_bytes = (2 * largest_record.max(GROUP_BYTES) as u64).next_multiple_of(512);
    JournalOptions { segment_bytes, ..JournalOptions::default() }
}

/// Writes records until the power fails, if it does.
fn write(disk: &SimulatedDisk, identity: Identity, records: &[(RecordId, Record)]) {
    let mut out = Encoder::default();
    let encode = |(id, record): &(RecordId, Record)| {
        record.encode(&mut out);
        (id.0, out.take())
    };
    let encoded: Vec<(u64, Bytes)> = records.iter().map(encode).collect();
    let largest = encoded.iter().map(|(_, record)| record.len()).max().unwrap_or(0);
    let written = SteppedJournal::open(disk.clone(), identity, &options(largest)).and_then(|mut journal| {
        let mut bytes = 0;
        for (id, record) in encoded {
            bytes += record.len();
            journal.append(id, record)?;
            if bytes >= GROUP_BYTES {
                bytes = 0;
                journal.commit()?;
                while journal.step() {}
            }
        }
        journal.commit()?;
        while journal.step() {}
        journal.durable()
    });
    assert!(written.is_ok() || disk.is_down(), "a simulated disk fails only when its power does: {written:?}");
}

fn read(disk: &SimulatedDisk, identity: Identity) -> Vec<(RecordId, Record)> {
    let opened = SteppedJournal::open(disk.clone(), identity, &options(0));
    let (journal, mut records) = (opened.expect("an interrupted write is removed"), Vec::new());
    let replayed = journal.replay(&mut |id, record| {
        let record = Record::decode(&mut Decoder::new(Bytes::copy_from_slice(record)));
        records.push((RecordId(id), record.expect("an intact record can be read")));
    });
    replayed.expect("a simulated disk that was not damaged can be read");
    records
}
