//! Snapshots of the state: for restarts, so that the journal can be truncated, and for peers that have fallen behind.
//!
//! All replicas keep a state at the same checkpoints. Once a quorum has certified it, a separate thread writes it to a
//! file, and peers may fetch it chunk by chunk. Then the journal is compacted and truncated at the last summary before
//! the state; the records after it serve peers that lag a little. If the journal is in memory, so are the states.
//!
//! If too many bytes of records accumulate without a certified state, the journal is compacted immediately and the
//! replica writes its own, uncertified state.

use crate::error::HostError;
use crate::snapshots::{Snapshot, SnapshotFiles, StateFile};
use crate::spool::{self, Spool};
use bytes::Bytes;
use quorate_applications::FrozenState;
use quorate_consensus::recovery::transfer::Part;
use quorate_hosting::{Chunks, Kept, StateKeeper};
use quorate_storage::account;
use quorate_types::host_status::TransferProgress;
use quorate_types::state::{CHUNK_BYTES, chunk_of};
use quorate_types::{Certificate, Height, Manifest};
use std::io;
use std::thread::{self, JoinHandle};

/// Summary in the journal: records that replace all earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sum {
    /// First record of the summary: the journal may be truncated here.
    pub first: u64,
    pub last: u64,
    /// Committed height at that time.
    pub height: Height,
}

enum Source {
    Memory(Bytes),
    File(StateFile, Reading),
}

/// Whether a state file can be read.
enum Reading {
    Fine,
    /// Reading failed, which has not been reported yet.
    Failed(io::Error),
    Told,
}

impl Source {
    fn file(file: StateFile) -> Source {
        Source::File(file, Reading::Fine)
    }
}

impl Chunks for Source {
    /// An unreadable chunk counts as lost; the peer will ask another replica.
    fn chunk(&mut self, manifest: &Manifest, chunk: u32) -> Option<Bytes> {
        let (file, reading) = match self {
            Source::Memory(state) => return chunk_of(state, chunk),
            Source::File(file, reading) => (file, reading),
        };
        let start = u64::from(chunk) * CHUNK_BYTES as u64;
        let length = manifest.bytes().checked_sub(start)?.min(CHUNK_BYTES as u64);
        match file.read(start, length as usize) {
            Ok(bytes) => Some(bytes),
            Err(why) => {
                if let Reading::Fine = reading {
                    *reading = Reading::Failed(why);
                }
                None
            }
        }
    }
}

/// Snapshot work in progress.
enum Work {
    Nothing,
    /// The replica's own state waits until the summary is durable.
    Waiting {
        last: u64,
        height: Height,
        state: Box<FrozenState>,
    },
    Writing {
        height: Height,
        certified: bool,
        thread: JoinHandle<io::Result<()>>,
    },
}

/// States of one replica.
pub(crate) struct States {
    files: Option<SnapshotFiles>,
    /// Bytes of records after which the journal is compacted even without a new state.
    every_bytes: u64,
    /// Bytes of records since the last summary.
    bytes: u64,
    /// Whether a state has been written since the last summary.
    sum_wanted: bool,
    /// Summaries in the journal, oldest first.
    sums: Vec<Sum>,
    work: Work,
    keeper: StateKeeper<Source>,
    /// Height of the state that the replica fetched last.
    fetched: Option<Height>,
    /// File of the chunks received so far.
    spool: Option<Spool>,
    /// Whether the disk was too full for the last state. Reported once.
    without_room: bool,
}

impl States {
    pub fn in_memory() -> States {
        States {
            files: None,
            every_bytes: u64::MAX,
            bytes: 0,
            sum_wanted: false,
            sums: Vec::new(),
            work: Work::Nothing,
            keeper: StateKeeper::default(),
            fetched: None,
            spool: None,
            without_room: false,
        }
    }

    /// Keeps states in files. The journal is compacted at the latest after `every_bytes` bytes of records.
    pub fn in_files(files: SnapshotFiles, every_bytes: u64) -> States {
        States { files: Some(files), every_bytes, ..States::in_memory() }
    }

    /// Returns the last readable state on disk, if any.
    pub fn read_last(&mut self) -> Result<Option<Snapshot>, HostError> {
        let Some(files) = &self.files else { return Ok(None) };
        let last = files.read_last()?;
        if let Some(Snapshot { height, certificate: Some(certificate), state }) = &last {
            let file = Source::file(files.open(*height)?);
            self.keeper.keep_certified(certificate.clone(), Manifest::of(state), file);
        }
        Ok(last)
    }

    /// Counts bytes appended to the journal.
    pub fn added(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Returns whether the journal should be compacted now.
    pub fn is_sum_due(&self) -> bool {
        let full = self.bytes >= self.every_bytes && matches!(self.work, Work::Nothing);
        self.files.is_some() && (self.sum_wanted || full)
    }

    /// Records that the journal was compacted. `state` freezes the replica's own state at that height, which is written
    /// if no other state has been written.
    pub fn summed(&mut self, sum: Sum, state: impl FnOnce() -> FrozenState) {
        self.sums.push(sum);
        self.bytes = 0;
        if !std::mem::take(&mut self.sum_wanted) {
            self.work = Work::Waiting { last: sum.last, height: sum.height, state: Box::new(state()) };
        }
    }

    /// Records a complete summary found in the journal at startup.
    pub fn recalled(&mut self, sum: Sum) {
        self.sums.push(sum);
        self.bytes = 0;
    }

    /// Keeps the state of a checkpoint.
    pub fn keep(&mut self, height: Height, manifest: Manifest, state: Bytes) {
        self.keeper.keep(height, manifest, Source::Memory(state));
    }

    /// Records that a quorum has certified a state.
    pub fn certify(&mut self, certificate: Certificate) {
        self.keeper.certify(certificate);
    }

    /// Returns a part of a kept state, or `None` if it is not available.
    pub fn read(&mut self, height: Height, part: Part) -> Option<Bytes> {
        self.keeper.read(height, part)
    }

    /// Returns a report for the operator about an unreadable state file, once per file.
    pub fn take_unreadable(&mut self) -> Option<String> {
        let files = self.files.as_ref()?;
        let failed = |kept: &&mut Kept<Source>| matches!(kept.state, Source::File(_, Reading::Failed(_)));
        let kept = self.keeper.kept_mut().iter_mut().find(failed)?;
        let Source::File(_, reading) = &mut kept.state else { return None };
        let Reading::Failed(why) = std::mem::replace(reading, Reading::Told) else { return None };
        let path = files.path(kept.height);
        Some(format!(
            "WARNING: cannot read {}: {why}; the replica continues, but peers that need this state must ask other \
             replicas until the next one is written; help: check the disk and the kernel's log, because a replica that \
             restarts needs the newest state",
            path.display()
        ))
    }

    /// Records that the replica needs the state of this height.
    pub fn fetch(&mut self, height: Height) {
        self.fetched = Some(height);
    }

    /// Returns the progress of the transfer of a state above `committed`, if there is one.
    pub fn progress(&self, committed: Height) -> Option<TransferProgress> {
        let height = self.fetched.filter(|height| *height > committed)?;
        let receiving = self.keeper.receiving().filter(|(of, _)| *of == height);
        let progress = TransferProgress { height, ..TransferProgress::default() };
        Some(receiving.map_or(progress, |(_, manifest)| TransferProgress {
            chunks: manifest.chunks().into(),
            received: self.keeper.received_chunks().count() as u64,
            ..progress
        }))
    }

    /// Starts to receive a state. Returns the chunks that are already available.
    pub fn receive(&mut self, height: Height, manifest: Manifest) -> Vec<u32> {
        let directory = self.files.as_ref().map(SnapshotFiles::directory);
        let spooled = directory.map(spool::read).unwrap_or_default();
        let held = self.keeper.receive(height, manifest, |digest| spooled.get(digest).cloned());
        self.spool = directory.and_then(Spool::create);
        for chunk in self.keeper.received_chunks() {
            spool::append(&mut self.spool, chunk);
        }
        held
    }

    /// Keeps a chunk of the state being received.
    pub fn keep_chunk(&mut self, height: Height, chunk: u32, bytes: Bytes) {
        spool::append(&mut self.spool, &bytes);
        self.keeper.keep_chunk(height, chunk, bytes);
    }

    /// Returns the received state, which must be complete.
    pub fn received(&mut self, height: Height) -> (Manifest, Bytes) {
        self.spool = None;
        self.keeper.received(height)
    }

    /// Records that the replica has adopted the received state, and writes it to disk if states are kept in files.
    pub fn adopt(&mut self, certificate: Certificate, manifest: Manifest, state: Bytes) -> Result<(), HostError> {
        let height = certificate.subject.height;
        let mut source = Source::Memory(state.clone());
        if let Some(files) = &self.files {
            let snapshot = Snapshot { height, certificate: Some(certificate.clone()), state };
            let written = files.write(&snapshot).and_then(|()| spool::remove(files.directory()));
            written.map_err(|why| files.fault("write", &files.path(height), why))?;
            source = Source::file(files.open(height)?);
        }
        self.keeper.keep_certified(certificate, manifest, source);
        Ok(())
    }

    /// Continues the work in progress. Returns the record up to which the journal may be truncated, if any; `settled`
    /// is the height up to which no peer needs the blocks for agreement any more. A full disk is reported, and writing
    /// is retried with the next state.
    pub fn go_on(&mut self, durable: Option<u64>, settled: Height) -> Result<Progress, HostError> {
        let Some(files) = &self.files else { return Ok(Progress::default()) };
        match std::mem::replace(&mut self.work, Work::Nothing) {
            Work::Nothing => {
                if let Some((certificate, kept)) = self.keeper.certified().next_back()
                    && let Source::Memory(state) = &kept.state
                {
                    let state = state.clone();
                    self.work = begin_writing(files, kept.height, Some(certificate.clone()), || state)?;
                }
            }
            Work::Waiting { last, height, state } if durable >= Some(last) => {
                self.work = begin_writing(files, height, None, || state.encode())?;
            }
            Work::Writing { height, certified, thread } if thread.is_finished() => {
                let written = thread.join().expect("writing a file does not panic");
                return self.written(height, certified, written, durable, settled);
            }
            work => self.work = work,
        }
        Ok(Progress::default())
    }

    fn written(
        &mut self,
        height: Height,
        certified: bool,
        written: io::Result<()>,
        durable: Option<u64>,
        settled: Height,
    ) -> Result<Progress, HostError> {
        let files = self.files.as_ref().expect("a file was written");
        if let Err(source) = written {
            let path = files.path(height);
            // The journal still contains everything in this state, and space may be free again before the journal is
            // full.
            let can_wait = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
            self.keeper.retain(|kept| kept.height != height || !matches!(kept.state, Source::Memory(_)));
            if !can_wait {
                return Err(files.fault("write", &path, source));
            }
            let trouble = (!std::mem::replace(&mut self.without_room, true)).then(|| {
                format!(
                    "WARNING: cannot write {}: {source}; the replica continues with the previous state and retries \
                     with the next one; help: make room, because the journal grows until a state is written, and the \
                     replica stops when the journal is full",
                    path.display()
                )
            });
            return Ok(Progress { cut: None, trouble });
        }
        let has_room_again = std::mem::take(&mut self.without_room);
        if let Some(kept) = self.keeper.get_mut(height) {
            kept.state = Source::file(files.open(height)?);
        }
        let first_kept = self.keeper.kept().first().map_or(height, |kept| kept.height.min(height));
        files.remove_below(first_kept)?;
        self.sum_wanted |= certified;
        let usable = |sum: &&Sum| {
            let covered = if certified { sum.height <= height } else { sum.height < height };
            covered && sum.height <= settled && durable >= Some(sum.last)
        };
        let cut = self.sums.iter().rfind(usable).copied();
        if let Some(cut) = cut {
            self.sums.retain(|sum| sum.first >= cut.first);
        }
        let trouble = has_room_again.then(|| "the state can be written again".to_owned());
        Ok(Progress { cut: cut.map(|sum| sum.first), trouble })
    }
}

/// Result of [`States::go_on`].
#[derive(Default)]
pub(crate) struct Progress {
    /// Record at which the journal may be truncated.
    pub cut: Option<u64>,
    /// Problem to report to the operator.
    pub trouble: Option<String>,
}

/// Writes a state on a separate thread; `state` is called there.
fn begin_writing(
    files: &SnapshotFiles,
    height: Height,
    certificate: Option<Certificate>,
    state: impl FnOnce() -> Bytes + Send + 'static,
) -> Result<Work, HostError> {
    let (writer, certified) = (files.clone(), certificate.is_some());
    let write = move || writer.write(&Snapshot { height, certificate, state: state() });
    let thread = account::spawn(thread::Builder::new().name("snapshot".to_owned()), write);
    let thread = thread.map_err(|source| files.fault("write", &files.path(height), source))?;
    Ok(Work::Writing { height, certified, thread })
}
