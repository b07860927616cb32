//! The journal in memory.

use crate::error::JournalError;
use crate::format::Entry;
use crate::journal::{Journal, Waker};
use bytes::Bytes;
use std::collections::VecDeque;

/// Default capacity of a [`MemoryJournal`], in bytes.
pub const DEFAULT_MEMORY_JOURNAL_BYTES: usize = 1 << 20;
/// Memory overhead of a record, in bytes: its id and its handle.
const RECORD_OVERHEAD_BYTES: usize = size_of::<Entry>();

/// Journal of the latest records in memory. Records do not survive a crash, and count as durable at once: for
/// experiments in which no replica restarts with the same identity.
pub struct MemoryJournal {
    records: VecDeque<Entry>,
    bytes: usize,
    capacity: usize,
    last: Option<u64>,
}

impl MemoryJournal {
    /// Creates a journal that keeps at most `capacity` bytes and drops the oldest records first.
    pub fn new(capacity: usize) -> MemoryJournal {
        MemoryJournal { records: VecDeque::new(), bytes: 0, capacity, last: None }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the memory occupied by the records, including their handles, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn forget_first(&mut self) {
        let entry = self.records.pop_front().expect("only kept records are counted");
        self.bytes -= entry.bytes + RECORD_OVERHEAD_BYTES;
    }
}

impl Default for MemoryJournal {
    fn default() -> Self {
        MemoryJournal::new(DEFAULT_MEMORY_JOURNAL_BYTES)
    }
}

impl Journal for MemoryJournal {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn append_pieces(&mut self, id: u64, pieces: Vec<Bytes>) -> Result<(), JournalError> {
        let entry = Entry::new(id, pieces);
        assert!(self.last.is_none_or(|last| last < id), "record {id} comes after record {:?}", self.last);
        let size = entry.bytes + RECORD_OVERHEAD_BYTES;
        if size > self.capacity {
            return Err(JournalError::TooLarge { bytes: size, capacity: self.capacity });
        }
        while self.bytes + size > self.capacity {
            self.forget_first();
        }
        self.bytes += size;
        self.records.push_back(entry);
        self.last = Some(id);
        Ok(())
    }

    fn outlives_process(&self) -> bool {
        false
    }

    fn accept_repair(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn durable(&mut self) -> Result<Option<u64>, JournalError> {
        Ok(self.last)
    }

    fn set_waker(&mut self, _waker: Waker) {}

    fn truncate(&mut self, first_kept: u64) -> Result<(), JournalError> {
        while self.records.front().is_some_and(|entry| entry.id < first_kept) {
            self.forget_first();
        }
        Ok(())
    }

    fn replay(&self, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), JournalError> {
        self.records.iter().for_each(|entry| visit(entry.id, &entry.pieces.concat()));
        Ok(())
    }
}
