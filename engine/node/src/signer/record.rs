//! A signer's record of signed statements, in a journal of its own.
//!
//! Each entry is on the disk before its signature leaves. When many entries have been added, those that still matter
//! are written again, and the earlier ones are cut off.

use super::fault::SignerError;
use super::judge::{Floor, Judge, Refusal, Verdict};
use super::protocol::Unsigned;
use quorate_storage::{FileJournal, Identity, Journal, JournalOptions};
use quorate_types::{Decoder, Encoder, Wire, wire};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Size of a segment of the record, in bytes.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Maximum size of the record on the disk, in bytes; it uses less than a quarter.
const CAPACITY_BYTES: u64 = 64 << 20;
/// Minimum number of new entries after which the record is written anew.
const ENTRIES_BETWEEN_SUMMARIES: usize = 8192;

/// Entry of the record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A statement that is signed.
    Signed(Unsigned),
    /// Nothing is signed at or below this.
    Floor(Floor),
}

wire! {
    enum Entry as "entry" {
        0 = Signed(unsigned),
        1 = Floor(floor),
    }
}

impl Entry {
    fn apply(&self, judge: &mut Judge) {
        match self {
            Entry::Signed(unsigned) => judge.remember(unsigned),
            Entry::Floor(floor) => judge.rise(*floor),
        }
    }
}

/// A durable [`Judge`].
pub struct Record {
    judge: Judge,
    journal: FileJournal,
    next_id: u64,
    /// Entries since the record was written anew.
    added: usize,
    written: Arc<(Mutex<bool>, Condvar)>,
}

impl Record {
    /// Creates a record with these entries in a directory that has none.
    ///
    /// # Errors
    /// [`SignerError`] if there is one, or it cannot be written.
    pub fn create(directory: &Path, identity: Identity, entries: &[Entry]) -> Result<(), SignerError> {
        if directory.exists() {
            return Err(SignerError::Exists(directory.to_owned()));
        }
        let mut record = Record::on(FileJournal::open(directory, identity, &options())?, false)?;
        // A record is never empty, so that an empty directory is a lost record.
        let floor = Entry::Floor(Floor::default());
        record.add([floor].iter().chain(entries))
    }

    /// Opens a record, for a protocol whose votes are on slots or not.
    ///
    /// # Errors
    /// [`SignerError`] if it is missing, damaged, in use, or of another replica or genesis.
    pub fn open(directory: &Path, identity: Identity, by_slot: bool) -> Result<Record, SignerError> {
        if !directory.is_dir() {
            return Err(SignerError::Lost(directory.to_owned()));
        }
        let journal = FileJournal::open(directory, identity, &options())?;
        if journal.recovery().last_id.is_none() || journal.recovery().repaired {
            return Err(SignerError::Lost(directory.to_owned()));
        }
        Record::on(journal, by_slot)
    }

    fn on(mut journal: FileJournal, by_slot: bool) -> Result<Record, SignerError> {
        let (mut judge, mut added, mut unreadable) = (Judge::new(by_slot), 0, None);
        journal.replay(&mut |id, bytes| match decode(bytes) {
            Some(entry) => {
                entry.apply(&mut judge);
                added += 1;
            }
            None => unreadable = unreadable.or(Some(id)),
        })?;
        if let Some(id) = unreadable {
            return Err(SignerError::Unreadable { id });
        }
        let written: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let waker = written.clone();
        journal.set_waker(Arc::new(move || {
            *waker.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            waker.1.notify_one();
        }));
        let next_id = journal.recovery().last_id.map_or(1, |last| last + 1);
        Ok(Record { judge, journal, next_id, added, written })
    }

    /// Judges a statement. If it may be signed, it is in the record on the disk.
    ///
    /// # Errors
    /// [`SignerError`] if the record cannot be written; nothing may be signed any more. Inside, the [`Refusal`].
    pub fn judge(&mut self, unsigned: &Unsigned) -> Result<Result<(), Refusal>, SignerError> {
        match self.judge.judge(unsigned) {
            Err(refusal) => Ok(Err(refusal)),
            Ok(Verdict::Free) => Ok(Ok(())),
            Ok(Verdict::Binds) => {
                // In this order: a statement that is remembered may be signed again without another entry.
                self.add([&Entry::Signed(*unsigned)])?;
                self.judge.remember(unsigned);
                if self.added >= ENTRIES_BETWEEN_SUMMARIES.max(2 * self.judge.statements().count()) {
                    self.write_anew()?;
                }
                Ok(Ok(()))
            }
        }
    }

    /// Appends entries, and waits until they are on the disk.
    fn add<'a>(&mut self, entries: impl IntoIterator<Item = &'a Entry>) -> Result<(), SignerError> {
        for entry in entries {
            let mut out = Encoder::with_capacity(128);
            entry.encode(&mut out);
            self.journal.append(self.next_id, out.finish())?;
            self.next_id += 1;
            self.added += 1;
        }
        self.journal.commit()?;
        let last = self.next_id - 1;
        while self.journal.durable()? < Some(last) {
            let mut written = self.written.0.lock().unwrap_or_else(PoisonError::into_inner);
            while !std::mem::take(&mut *written) {
                written = self.written.1.wait(written).unwrap_or_else(PoisonError::into_inner);
            }
        }
        Ok(())
    }

    /// Writes the entries that still matter, and cuts off all before them.
    fn write_anew(&mut self) -> Result<(), SignerError> {
        let first = self.next_id;
        let mut entries = vec![Entry::Floor(self.judge.floor())];
        entries.extend(self.judge.statements().map(|unsigned| Entry::Signed(*unsigned)));
        self.add(&entries)?;
        self.added = 0;
        Ok(self.journal.truncate(first)?)
    }
}

fn options() -> JournalOptions {
    JournalOptions { segment_bytes: SEGMENT_BYTES, capacity_bytes: CAPACITY_BYTES, ..JournalOptions::default() }
}

fn decode(bytes: &[u8]) -> Option<Entry> {
    let mut input = Decoder::new(bytes.to_vec().into());
    let entry = Entry::decode(&mut input).ok()?;
    input.finish("end of entry").ok().map(|()| entry)
}
