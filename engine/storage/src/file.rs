//! The journal on disk: a writer thread, and a handle that never waits for it.

use crate::account;
use crate::directory::Directory;
use crate::error::JournalError;
use crate::format::{Entry, Identity};
use crate::journal::{Journal, Waker};
use crate::log::{Log, Recovery, record_capacity};
use crate::medium::Medium;
use crate::options::JournalOptions;
use crate::slices;
use crate::times::Times;
use bytes::Bytes;
use quorate_types::status::WriteTimes;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::{self, JoinHandle};

/// Represents an absent id in an atomic; no record may have it.
const NO_ID: u64 = u64::MAX;

/// Journal in a directory, written by one thread: each write stores all pending records as one group.
///
/// Dropping it waits until all committed records are written, unless the disk has fallen too far behind.
pub struct FileJournal<M: Medium = Directory> {
    shared: Arc<Shared<M>>,
    name: &'static str,
    recovery: Recovery,
    appended: Vec<Entry>,
    last: Option<u64>,
    first_kept: u64,
    waiting_bytes: usize,
    record_bytes: usize,
    writer: Option<JoinHandle<()>>,
}

struct Shared<M: Medium> {
    queue: Mutex<Queue>,
    work: Condvar,
    /// The highest durable id, or [`NO_ID`].
    durable: AtomicU64,
    /// Bytes of records that are appended but not durable.
    waiting: AtomicUsize,
    failure: OnceLock<JournalError>,
    /// Whether the writer has panicked.
    dead: AtomicBool,
    waker: Mutex<Option<Waker>>,
    times: Times,
    /// Locked while a group is written.
    log: Mutex<Log<M>>,
}

#[derive(Default)]
struct Queue {
    records: Vec<Entry>,
    truncate: Option<u64>,
    stop: bool,
    /// Whether the writer waits for work.
    idle: bool,
}

impl FileJournal<Directory> {
    /// Opens and locks the journal in `directory`, which is created if it does not exist.
    pub fn open(directory: &Path, identity: Identity, options: &JournalOptions) -> Result<FileJournal, JournalError> {
        options.validate()?;
        FileJournal::on(Directory::open(directory, options.fsync, options.flush)?, identity, options)
    }
}

impl<M: Medium> FileJournal<M> {
    /// Opens the journal on a medium, whose policies override those in `options`.
    pub fn on(medium: M, identity: Identity, options: &JournalOptions) -> Result<FileJournal<M>, JournalError> {
        let name = medium.name();
        let (log, recovery) = Log::open(medium, identity, options, true)?;
        let last = log.last_id();
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            durable: AtomicU64::new(last.unwrap_or(NO_ID)),
            waiting: AtomicUsize::new(0),
            failure: OnceLock::new(),
            dead: AtomicBool::new(false),
            waker: Mutex::new(None),
            times: Times::new(),
            log: Mutex::new(log),
        });
        let of_writer = shared.clone();
        let writer = account::spawn(thread::Builder::new().name("journal".to_owned()), move || write(&of_writer));
        let writer = writer.map_err(|error| JournalError::io("start", "its writer thread", error))?;
        Ok(FileJournal {
            shared,
            name,
            recovery,
            appended: Vec::new(),
            last,
            first_kept: 0,
            waiting_bytes: options.waiting_bytes,
            record_bytes: record_capacity(options.segment_bytes),
            writer: Some(writer),
        })
    }

    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    fn check(&self) -> Result<(), JournalError> {
        assert!(!self.shared.dead.load(Ordering::Acquire), "the journal's writer panicked");
        self.shared.failure.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn fail(&self, error: JournalError) -> Result<(), JournalError> {
        Err(self.shared.failure.get_or_init(|| error).clone())
    }

    fn order(&self, order: impl FnOnce(&mut Queue)) {
        let mut queue = self.shared.queue.lock().expect("the journal's writer panicked");
        order(&mut queue);
        let idle = std::mem::replace(&mut queue.idle, false);
        drop(queue);
        if idle {
            self.shared.work.notify_one();
        }
    }
}

impl<M: Medium> Journal for FileJournal<M> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn append_pieces(&mut self, id: u64, pieces: Vec<Bytes>) -> Result<(), JournalError> {
        let entry = Entry::new(id, pieces);
        assert!(self.last.is_none_or(|last| last < id), "record {id} comes after record {:?}", self.last);
        assert!(id != NO_ID, "record id {id} is reserved");
        self.check()?;
        if entry.bytes > self.record_bytes {
            return self.fail(JournalError::TooLarge { bytes: entry.bytes, capacity: self.record_bytes });
        }
        let waiting = self.shared.waiting.fetch_add(entry.bytes, Ordering::Relaxed) + entry.bytes;
        if waiting > self.waiting_bytes {
            return self.fail(JournalError::Behind { bytes: waiting, limit: self.waiting_bytes });
        }
        self.last = Some(id);
        self.appended.push(entry);
        Ok(())
    }

    fn outlives_process(&self) -> bool {
        true
    }

    fn accept_repair(&mut self) -> Result<(), JournalError> {
        self.check()?;
        self.shared.log.lock().expect("the journal's writer panicked").accept_repair()?;
        self.recovery.repaired = false;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), JournalError> {
        self.check()?;
        if self.appended.is_empty() {
            return Ok(());
        }
        let mut appended = std::mem::take(&mut self.appended);
        self.order(|queue| {
            if queue.records.is_empty() {
                std::mem::swap(&mut queue.records, &mut appended);
            } else {
                queue.records.append(&mut appended);
            }
        });
        self.appended = appended;
        Ok(())
    }

    fn durable(&mut self) -> Result<Option<u64>, JournalError> {
        self.check()?;
        let durable = self.shared.durable.load(Ordering::Acquire);
        Ok((durable != NO_ID).then_some(durable))
    }

    fn write_times(&self) -> Option<WriteTimes> {
        Some(self.shared.times.read())
    }

    fn set_waker(&mut self, waker: Waker) {
        *self.shared.waker.lock().expect("a waker does not panic") = Some(waker);
    }

    fn truncate(&mut self, first_kept: u64) -> Result<(), JournalError> {
        self.check()?;
        self.first_kept = self.first_kept.max(first_kept);
        self.order(|queue| queue.truncate = queue.truncate.max(Some(first_kept)));
        Ok(())
    }

    fn replay(&self, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), JournalError> {
        let log = self.shared.log.lock().expect("the journal's writer panicked");
        // The writer may not have performed the last truncation yet.
        log.replay(&mut |id, record| {
            if id >= self.first_kept {
                visit(id, record);
            }
        })
    }
}

impl<M: Medium> Drop for FileJournal<M> {
    fn drop(&mut self) {
        if let Ok(mut queue) = self.shared.queue.lock() {
            queue.stop = true;
        }
        self.shared.work.notify_one();
        // A disk that has fallen behind may never answer: the process must still be able to exit and report the reason.
        let hangs = matches!(self.shared.failure.get(), Some(JournalError::Behind { .. }));
        if let Some(writer) = self.writer.take().filter(|_| !hangs) {
            let _ = writer.join();
        }
    }
}

/// Guard that reports a panic of the writer to the replica's thread, which would otherwise wait forever.
struct PanicGuard<'a, M: Medium>(&'a Shared<M>);

impl<M: Medium> Drop for PanicGuard<'_, M> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.dead.store(true, Ordering::Release);
            wake(self.0);
        }
    }
}

fn wake<M: Medium>(shared: &Shared<M>) {
    // A panic in the waker leaves nothing inconsistent here.
    let waker = shared.waker.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(waker) = &*waker {
        waker();
    }
}

/// Runs the writer thread until it must stop or fails.
fn write<M: Medium>(shared: &Shared<M>) {
    let _guard = PanicGuard(shared);
    slices::request_short_slices();
    let mut records = Vec::new();
    while let Some(truncate) = next_work(shared, &mut records) {
        if let Err(error) = perform(shared, truncate, &records) {
            shared.failure.get_or_init(|| error);
            wake(shared);
            return;
        }
        records.clear();
    }
}

/// Waits for work and takes all of it: moves the pending records into `records`, and returns the first record to keep,
/// if a truncation is due. Returns `None` after the last work.
fn next_work<M: Medium>(shared: &Shared<M>, records: &mut Vec<Entry>) -> Option<Option<u64>> {
    let mut queue = shared.queue.lock().expect("the journal's owner does not panic while it holds this lock");
    loop {
        if !queue.records.is_empty() || queue.truncate.is_some() {
            std::mem::swap(&mut queue.records, records);
            return Some(queue.truncate.take());
        }
        if queue.stop {
            return None;
        }
        queue.idle = true;
        queue = shared.work.wait(queue).expect("the journal's owner does not panic while it holds this lock");
    }
}

fn perform<M: Medium>(shared: &Shared<M>, truncate: Option<u64>, mut records: &[Entry]) -> Result<(), JournalError> {
    while !records.is_empty() {
        if let Some(error) = shared.failure.get() {
            return Err(error.clone());
        }
        let mut log = shared.log.lock().expect("a replay does not panic");
        let count = shared.times.measure(|| log.write(records))?;
        drop(log);
        let (written, rest) = records.split_at(count);
        records = rest;
        shared.waiting.fetch_sub(written.iter().map(|entry| entry.bytes).sum(), Ordering::Relaxed);
        let last = written.last().map(|entry| entry.id).expect("a group has records");
        shared.durable.store(last, Ordering::Release);
        wake(shared);
    }
    truncate.map_or(Ok(()), |first_kept| shared.log.lock().expect("a replay does not panic").truncate(first_kept))
}
