//! Supply of new segments: files of truncated segments, reused without zeroing, or new files filled with zeros.

use crate::account;
use crate::error::JournalError;
use crate::format::{Identity, MAX_LIVES, SegmentHeader};
use crate::medium::{Medium, MediumFile};
use crate::survey::{preparing_name, retired_name, segment_name};
use std::collections::VecDeque;
use std::io;
use std::thread::{self, JoinHandle};

/// A named segment without groups.
pub(crate) struct Empty<F> {
    pub file: F,
    pub life: u8,
}

/// File of a truncated segment.
struct Retired {
    name: String,
    /// The life in which the file will be reused.
    life: u8,
}

/// Segment after the one in use.
enum Next<F> {
    None,
    Ready(Empty<F>),
    Preparing(JoinHandle<Result<Empty<F>, JournalError>>),
}

/// Prepares segments, ahead of time if allowed. A file is added only if none is available for reuse, so all files
/// together never take more space than the segments in use plus the next one.
pub(crate) struct Supply<M: Medium> {
    medium: M,
    identity: Identity,
    segment_bytes: u64,
    /// Whether a thread prepares segments; otherwise [`Supply::take`] does.
    ahead: bool,
    next: Next<M::File>,
    retired: VecDeque<Retired>,
}

impl<M: Medium> Supply<M> {
    pub fn new(medium: M, identity: Identity, segment_bytes: u64, ahead: bool) -> Supply<M> {
        Supply { medium, identity, segment_bytes, ahead, next: Next::None, retired: VecDeque::new() }
    }

    /// Takes over a segment prepared by an earlier process.
    pub fn adopt(&mut self, next: Empty<M::File>) {
        self.next = Next::Ready(next);
    }

    /// Starts preparing the next segment, `index`, unless it is prepared or in preparation. `room` allows adding a
    /// file.
    pub fn prepare_ahead(&mut self, index: u64, room: bool) {
        let is_idle = matches!(self.next, Next::None);
        if !self.ahead || !is_idle || (self.retired.is_empty() && !room) {
            return;
        }
        let (medium, retired, header) = (self.medium.clone(), self.retired.pop_front(), self.header(index));
        let thread = thread::Builder::new().name("journal-ahead".to_owned());
        // If no thread can be started, the segment is prepared when it is needed.
        if let Ok(handle) = account::spawn(thread, move || prepare(&medium, header, retired)) {
            self.next = Next::Preparing(handle);
        }
    }

    /// Returns the next segment, `index`; `None` if it would need another file and there is no `room`.
    pub fn take(&mut self, index: u64, room: bool) -> Result<Option<Empty<M::File>>, JournalError> {
        let next = match std::mem::replace(&mut self.next, Next::None) {
            Next::Ready(next) => Some(next),
            // Retry after a failure: the disk may have free space by now.
            Next::Preparing(thread) => thread.join().expect("preparing a segment does not panic").ok(),
            Next::None => None,
        };
        if next.is_some() || (self.retired.is_empty() && !room) {
            return Ok(next);
        }
        let retired = self.retired.pop_front();
        prepare(&self.medium, self.header(index), retired).map(Some)
    }

    fn header(&self, index: u64) -> SegmentHeader {
        SegmentHeader { identity: self.identity, index, bytes: self.segment_bytes, life: 0 }
    }

    /// Removes the first segment, `index`, from the journal and keeps its file for reuse; durable on return.
    pub fn retire(&mut self, index: u64, bytes: u64, life: u8) -> Result<(), JournalError> {
        let (name, retired) = (segment_name(index), retired_name(index));
        if bytes != self.segment_bytes || life + 1 == MAX_LIVES {
            return remove(&self.medium, &name);
        }
        let renamed = self.medium.rename(&name, &retired).and_then(|()| self.medium.sync_names());
        renamed.map_err(|error| JournalError::io("remove", self.medium.describe(&name), error))?;
        self.retired.push_back(Retired { name: retired, life: life + 1 });
        Ok(())
    }
}

impl<M: Medium> Drop for Supply<M> {
    fn drop(&mut self) {
        // The thread holds the medium and its lock, which the next process to open the journal needs.
        if let Next::Preparing(thread) = std::mem::replace(&mut self.next, Next::None) {
            let _ = thread.join();
        }
    }
}

/// Creates a segment with only its header, which is complete before the file gets its name.
fn prepare<M: Medium>(
    medium: &M,
    header: SegmentHeader,
    retired: Option<Retired>,
) -> Result<Empty<M::File>, JournalError> {
    let name = segment_name(header.index);
    let made = match retired {
        Some(Retired { name: retired, life }) => medium
            .open(&retired)
            .and_then(|file| write_header(medium, file, SegmentHeader { life, ..header }, &retired)),
        None => create(medium, header),
    };
    made.map_err(|error| JournalError::io("prepare", medium.describe(&name), error))
}

fn create<M: Medium>(medium: &M, header: SegmentHeader) -> io::Result<Empty<M::File>> {
    let preparing = preparing_name(header.index);
    if medium.list()?.contains(&preparing) {
        medium.remove(&preparing)?;
    }
    let file = medium.create(&preparing, header.bytes)?;
    write_header(medium, file, header, &preparing)
}

/// Writes a segment's header to a file and then gives the file the segment's name.
fn write_header<M: Medium>(
    medium: &M,
    mut file: M::File,
    header: SegmentHeader,
    name: &str,
) -> io::Result<Empty<M::File>> {
    file.write(0, &header.encode())?;
    medium.rename(name, &segment_name(header.index))?;
    medium.sync_names()?;
    Ok(Empty { file, life: header.life })
}

/// Removes a file; durable on return.
pub(crate) fn remove<M: Medium>(medium: &M, name: &str) -> Result<(), JournalError> {
    let removed = medium.remove(name).and_then(|()| medium.sync_names());
    removed.map_err(|error| JournalError::io("remove", medium.describe(name), error))
}
