//! Where segments come from: the files of those that were cut, used again as they are, or else new files full of zeros.

use crate::account;
use crate::error::JournalError;
use crate::format::{MOST_LIVES, SegmentHeader};
use crate::medium::{Medium, MediumFile};
use crate::options::Identity;
use crate::survey::{preparing_name, retired_name, segment_name};
use std::collections::VecDeque;
use std::io;
use std::thread::{self, JoinHandle};

/// A segment that has its name and no group.
pub(crate) struct Empty<F> {
    pub file: F,
    pub life: u8,
}

/// The file of a segment that was cut.
struct Retired {
    name: String,
    /// Its next one.
    life: u8,
}

/// The segment after the one in use.
enum Next<F> {
    None,
    Ready(Empty<F>),
    Preparing(JoinHandle<Result<Empty<F>, JournalError>>),
}

/// Makes segments, if it may ahead of time. Segments in use, the next and those that wait to be used again never take more room than
/// those in use and the next once did: a file is added only when none waits.
pub(crate) struct Supply<M: Medium> {
    medium: M,
    identity: Identity,
    segment_bytes: u64,
    /// Whether a thread prepares segments, or [`Supply::take`] does.
    ahead: bool,
    next: Next<M::File>,
    retired: VecDeque<Retired>,
}

impl<M: Medium> Supply<M> {
    pub fn new(medium: M, identity: Identity, segment_bytes: u64, ahead: bool) -> Supply<M> {
        Supply { medium, identity, segment_bytes, ahead, next: Next::None, retired: VecDeque::new() }
    }

    /// Takes over the segment that an earlier process has prepared.
    pub fn adopt(&mut self, next: Empty<M::File>) {
        self.next = Next::Ready(next);
    }

    /// Begins to prepare the segment `index`, which comes next, unless that is done or under way. `room`: a file may be added.
    pub fn prepare_ahead(&mut self, index: u64, room: bool) {
        let is_idle = matches!(self.next, Next::None);
        if !self.ahead || !is_idle || (self.retired.is_empty() && !room) {
            return;
        }
        let (medium, retired, header) = (self.medium.clone(), self.retired.pop_front(), self.header(index));
        let thread = thread::Builder::new().name("journal-ahead".to_owned());
        // Without a thread the segment is prepared when it is needed.
        if let Ok(handle) = account::spawn(thread, move || prepare(&medium, header, retired)) {
            self.next = Next::Preparing(handle);
        }
    }

    /// The segment `index`, which comes next; none if that takes a further file and there is no `room` for it.
    pub fn take(&mut self, index: u64, room: bool) -> Result<Option<Empty<M::File>>, JournalError> {
        let next = match std::mem::replace(&mut self.next, Next::None) {
            Next::Ready(next) => Some(next),
            // A failure ahead of time is none yet: the room that was missing may be there by now.
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

    /// Takes the segment `index`, the first of all, out of the journal for good; durable on return.
    pub fn retire(&mut self, index: u64, bytes: u64, life: u8) -> Result<(), JournalError> {
        let (name, retired) = (segment_name(index), retired_name(index));
        if bytes != self.segment_bytes || life + 1 == MOST_LIVES {
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
        // The thread holds the medium, and with it the lock that whoever opens the journal next needs.
        if let Next::Preparing(thread) = std::mem::replace(&mut self.next, Next::None) {
            let _ = thread.join();
        }
    }
}

/// A segment with nothing but its header, complete before it has its name.
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

/// Gives a file the header of its segment and then that segment's name.
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
