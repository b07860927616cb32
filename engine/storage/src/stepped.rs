//! A journal that writes only on request, for simulators with virtual time and for tests.

use crate::error::JournalError;
use crate::format::{Entry, Identity};
use crate::journal::{Journal, Waker};
use crate::log::{Log, Recovery, record_capacity};
use crate::medium::Medium;
use crate::options::JournalOptions;
use bytes::Bytes;

/// The file journal without its thread: [`SteppedJournal::step`] writes the committed records, one group at a time.
pub struct SteppedJournal<M: Medium> {
    log: Log<M>,
    recovery: Recovery,
    appended: Vec<Entry>,
    committed: Vec<Entry>,
    last: Option<u64>,
    waiting: usize,
    waiting_bytes: usize,
    record_bytes: usize,
    failure: Option<JournalError>,
    waker: Option<Waker>,
}

impl<M: Medium> SteppedJournal<M> {
    /// Opens the journal on `medium`, or starts a new one.
    pub fn open(medium: M, identity: Identity, options: &JournalOptions) -> Result<SteppedJournal<M>, JournalError> {
        let (log, recovery) = Log::open(medium, identity, options, false)?;
        Ok(SteppedJournal {
            last: log.last_id(),
            log,
            recovery,
            appended: Vec::new(),
            committed: Vec::new(),
            waiting: 0,
            waiting_bytes: options.waiting_bytes,
            record_bytes: record_capacity(options.segment_bytes),
            failure: None,
            waker: None,
        })
    }

    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Returns whether committed records are waiting to be written.
    pub fn is_waiting(&self) -> bool {
        !self.committed.is_empty() && self.failure.is_none()
    }

    /// Writes one group of committed records. Returns whether there was anything to write. [`Journal::durable`] reports
    /// errors.
    pub fn step(&mut self) -> bool {
        if !self.is_waiting() {
            return false;
        }
        match self.log.write(&self.committed) {
            Ok(count) => self.waiting -= self.committed.drain(..count).map(|entry| entry.bytes).sum::<usize>(),
            Err(error) => self.failure = Some(error),
        }
        if let Some(waker) = &self.waker {
            waker();
        }
        true
    }

    fn check(&self) -> Result<(), JournalError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: JournalError) -> Result<(), JournalError> {
        self.failure = Some(error.clone());
        Err(error)
    }
}

impl<M: Medium> Journal for SteppedJournal<M> {
    fn name(&self) -> &'static str {
        self.log.name()
    }

    fn append_pieces(&mut self, id: u64, pieces: Vec<Bytes>) -> Result<(), JournalError> {
        let entry = Entry::new(id, pieces);
        assert!(self.last.is_none_or(|last| last < id), "record {id} comes after record {:?}", self.last);
        self.check()?;
        if entry.bytes > self.record_bytes {
            return self.fail(JournalError::TooLarge { bytes: entry.bytes, capacity: self.record_bytes });
        }
        let waiting = self.waiting + entry.bytes;
        if waiting > self.waiting_bytes {
            return self.fail(JournalError::Behind { bytes: waiting, limit: self.waiting_bytes });
        }
        self.waiting = waiting;
        self.last = Some(id);
        self.appended.push(entry);
        Ok(())
    }

    fn outlives_process(&self) -> bool {
        true
    }

    fn accept_repair(&mut self) -> Result<(), JournalError> {
        self.check()?;
        self.log.accept_repair()?;
        self.recovery.repaired = false;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), JournalError> {
        self.check()?;
        self.committed.append(&mut self.appended);
        Ok(())
    }

    fn durable(&mut self) -> Result<Option<u64>, JournalError> {
        self.check()?;
        Ok(self.log.last_id())
    }

    fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    fn truncate(&mut self, first_kept: u64) -> Result<(), JournalError> {
        self.check()?;
        self.log.truncate(first_kept).or_else(|error| self.fail(error))
    }

    fn replay(&self, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), JournalError> {
        self.log.replay(visit)
    }
}
