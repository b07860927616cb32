//! The journal proper, one call at a time: what a thread does in a node, and what a simulator does in virtual time.

use crate::error::JournalError;
use crate::format::{
    Entry, GROUP_HEADER_BYTES, RECORD_HEADER_BYTES, SECTOR_BYTES, SegmentHeader, encode_group, group_bytes,
};
use crate::medium::{Medium, MediumFile};
use crate::options::{Identity, JournalOptions};
use crate::repair::REPAIRED_MARK;
use crate::scan::{Before, Tail, scan};
use crate::survey::{Found, Survey, corrupt, is_preparing, preparing_name, read_segment, segment_name, survey};
use std::collections::VecDeque;
use std::thread::{self, JoinHandle};

/// Most bytes of one group with more than one record: a longer one would make what comes first wait for what comes last.
const GROUP_BYTES: usize = 1 << 20;

/// What opening a journal found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// Records that can be replayed.
    pub records: u64,
    /// Segments in use.
    pub segments: usize,
    /// The highest id, or none if the journal has no record: it is new, or what it held is gone.
    pub last_id: Option<u64>,
    /// What an interrupted write left at the end, and was cut off. None of it was ever reported durable.
    pub cut: Option<Cut>,
    /// The journal was repaired by cutting off what could not be read: records that were reported durable may be gone, and the
    /// replica must not vote on the strength of those that are left.
    pub repaired: bool,
}

/// The remains of an interrupted write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The segment.
    pub file: String,
    /// Where they began, in bytes.
    pub offset: u64,
    /// How long they were, in bytes.
    pub bytes: u64,
}

struct Segment {
    index: u64,
    bytes: u64,
    last_id: Option<u64>,
    /// What was known when it began: where a replay that begins here starts from.
    before: Before,
}

/// The segment after the one in use.
enum Spare<M: Medium> {
    None,
    Ready(M::File),
    Preparing(JoinHandle<Result<M::File, JournalError>>),
}

/// Segments and the place where the next group goes. After an error nothing may be called but [`Log::replay`].
pub(crate) struct Log<M: Medium> {
    medium: M,
    identity: Identity,
    segment_bytes: u64,
    capacity_bytes: u64,
    /// Whether a thread prepares segments, or [`Log::write`] does when it needs one.
    ahead: bool,
    /// Ascending; the last is the one in use.
    segments: VecDeque<Segment>,
    active: M::File,
    position: u64,
    next_sequence: u64,
    last_id: Option<u64>,
    first_kept: u64,
    spare: Spare<M>,
    buffer: Vec<u8>,
}

/// The most bytes that one record may have.
pub(crate) fn record_capacity(segment_bytes: u64) -> usize {
    let groups = usize::try_from(segment_bytes).expect("a valid segment fits the memory") - SECTOR_BYTES;
    groups - GROUP_HEADER_BYTES - RECORD_HEADER_BYTES - 1
}

impl<M: Medium> Log<M> {
    /// Reads what `medium` holds, cuts off what an interrupted write left, and stands ready to go on. `ahead`: prepare the next
    /// segment on a thread of its own.
    pub fn open(
        medium: M,
        identity: Identity,
        options: &JournalOptions,
        ahead: bool,
    ) -> Result<(Log<M>, Recovery), JournalError> {
        options.validate()?;
        let found = survey(&medium, Some(identity), &mut |_, _| {})?;
        if let Some(error) = found.error(&medium) {
            return Err(error);
        }
        let names = medium.list().map_err(|error| JournalError::io("list", medium.describe(""), error))?;
        for name in names.iter().filter(|name| is_preparing(name)) {
            remove(&medium, name)?;
        }
        let repaired = names.iter().any(|name| name == REPAIRED_MARK);
        if found.segments.is_empty() {
            let active = prepare(&medium, identity, 0, options.segment_bytes)?;
            let first = Segment { index: 0, bytes: options.segment_bytes, last_id: None, before: Before::default() };
            let log = Log::new(medium, identity, options, ahead, VecDeque::from([first]), active, Spare::None);
            return Ok((log, Recovery { records: 0, segments: 1, last_id: None, cut: None, repaired }));
        }
        Log::resume(medium, identity, options, ahead, found, repaired)
    }

    fn new(
        medium: M,
        identity: Identity,
        options: &JournalOptions,
        ahead: bool,
        segments: VecDeque<Segment>,
        active: M::File,
        spare: Spare<M>,
    ) -> Log<M> {
        let mut log = Log {
            medium,
            identity,
            segment_bytes: options.segment_bytes,
            capacity_bytes: options.capacity_bytes,
            ahead,
            segments,
            active,
            position: SECTOR_BYTES as u64,
            next_sequence: 0,
            last_id: None,
            first_kept: 0,
            spare,
            buffer: Vec::new(),
        };
        log.prepare_ahead();
        log
    }

    fn resume(
        medium: M,
        identity: Identity,
        options: &JournalOptions,
        ahead: bool,
        survey: Survey,
        repaired: bool,
    ) -> Result<(Log<M>, Recovery), JournalError> {
        let active = survey.active();
        let mut found = survey.segments;
        let mut spare = Spare::None;
        // The highest first, so that a crash in between leaves no gap.
        for (at, unused) in found.split_off(active + 1).iter().enumerate().rev() {
            let name = segment_name(unused.index);
            if at == 0 && unused.bytes == options.segment_bytes {
                let file =
                    medium.open(&name).map_err(|error| JournalError::io("open", medium.describe(&name), error))?;
                spare = Spare::Ready(file);
            } else {
                remove(&medium, &name)?;
            }
        }
        let records = found.iter().map(|segment| segment.scan.records).sum();
        let mut segments = VecDeque::new();
        let mut before = Before::default();
        for Found { index, bytes, scan } in &found {
            // What an earlier process wrote may be in the cache alone.
            let synced = medium.open(&segment_name(*index)).and_then(|file| file.sync());
            synced.map_err(|error| JournalError::io("sync", medium.describe(&segment_name(*index)), error))?;
            segments.push_back(Segment { index: *index, bytes: *bytes, last_id: scan.last_id, before });
            before = Before { next_sequence: scan.next_sequence, last_id: scan.last_id };
        }
        let Found { index, scan, .. } = found.pop().expect("a journal that is resumed has a segment");
        let file = segment_name(index);
        let fail = |error| JournalError::io("write", medium.describe(&file), error);
        let mut active = medium.open(&file).map_err(fail)?;
        let cut = match scan.tail {
            Tail::Torn { end } => {
                blank(&mut active, scan.end, end).map_err(fail)?;
                Some(Cut { file: medium.describe(&file), offset: scan.end as u64, bytes: (end - scan.end) as u64 })
            }
            Tail::Clean => None,
            Tail::Damaged(_) => panic!("a damaged journal is refused"),
        };
        if let Some(group) = scan.last_group {
            // A write that failed may have left its group in the cache, as if written: no sync would write it again.
            let mut copy = vec![0; group.len()];
            active.read(group.start as u64, &mut copy).map_err(fail)?;
            active.write(group.start as u64, &copy).map_err(fail)?;
        }
        let recovery = Recovery { records, segments: segments.len(), last_id: scan.last_id, cut, repaired };
        let mut log = Log::new(medium, identity, options, ahead, segments, active, spare);
        log.position = scan.end as u64;
        log.next_sequence = scan.next_sequence.unwrap_or(0);
        log.last_id = scan.last_id;
        Ok((log, recovery))
    }

    /// The highest id that is written.
    pub fn last_id(&self) -> Option<u64> {
        self.last_id
    }

    /// The medium's name for results.
    pub fn name(&self) -> &'static str {
        self.medium.name()
    }

    /// Forgets that the journal was repaired.
    pub fn accept_repair(&mut self) -> Result<(), JournalError> {
        let names = self.medium.list().map_err(|error| JournalError::io("list", self.medium.describe(""), error))?;
        if names.iter().any(|name| name == REPAIRED_MARK) {
            remove(&self.medium, REPAIRED_MARK)?;
        }
        Ok(())
    }

    /// Writes as many of `records`, from the first, as one group takes, and says how many; they are durable on return.
    pub fn write(&mut self, records: &[Entry]) -> Result<usize, JournalError> {
        assert!(!records.is_empty(), "a group has records");
        let mut count = self.fitting(records);
        if count == 0 {
            self.next_segment()?;
            count = self.fitting(records);
            assert!(count > 0, "a record that fits no segment is refused when it is appended");
        }
        let group = &records[..count];
        let segment = self.segments.back_mut().expect("one segment is in use");
        encode_group(self.next_sequence, segment.index, group, &mut self.buffer);
        let written = self.active.write(self.position, &self.buffer);
        written
            .map_err(|error| JournalError::io("write", self.medium.describe(&segment_name(segment.index)), error))?;
        self.position += self.buffer.len() as u64;
        self.next_sequence += 1;
        self.last_id = group.last().map(|entry| entry.id);
        segment.last_id = self.last_id;
        Ok(count)
    }

    fn fitting(&self, records: &[Entry]) -> usize {
        let segment = self.segments.back().expect("one segment is in use");
        let room = usize::try_from(segment.bytes - self.position).expect("a segment fits the memory");
        let (mut content, mut count) = (0, 0);
        for entry in records {
            content += RECORD_HEADER_BYTES + entry.bytes;
            if group_bytes(content) > room || (count > 0 && group_bytes(content) > GROUP_BYTES) {
                break;
            }
            count += 1;
        }
        count
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    fn next_segment(&mut self) -> Result<(), JournalError> {
        let index = self.segments.back().expect("one segment is in use").index + 1;
        let spare = match std::mem::replace(&mut self.spare, Spare::None) {
            Spare::Ready(file) => Some(file),
            // A failure ahead of time is none yet: the room that was missing may be there by now.
            Spare::Preparing(thread) => thread.join().expect("preparing a segment does not panic").ok(),
            Spare::None => None,
        };
        self.active = match spare {
            Some(file) => file,
            None if self.bytes() + self.segment_bytes > self.capacity_bytes => {
                return Err(JournalError::Full { bytes: self.bytes(), capacity: self.capacity_bytes });
            }
            None => prepare(&self.medium, self.identity, index, self.segment_bytes)?,
        };
        let before = Before { next_sequence: Some(self.next_sequence), last_id: self.last_id };
        self.segments.push_back(Segment { index, bytes: self.segment_bytes, last_id: self.last_id, before });
        self.position = SECTOR_BYTES as u64;
        self.prepare_ahead();
        Ok(())
    }

    /// Begins to prepare the segment after the one in use, if there is room for it.
    fn prepare_ahead(&mut self) {
        let idle = matches!(self.spare, Spare::None);
        if !self.ahead || !idle || self.bytes() + self.segment_bytes > self.capacity_bytes {
            return;
        }
        let (medium, identity, bytes) = (self.medium.clone(), self.identity, self.segment_bytes);
        let index = self.segments.back().expect("one segment is in use").index + 1;
        let thread = thread::Builder::new().name("journal-ahead".to_owned());
        // Without a thread the segment is prepared when it is needed.
        if let Ok(handle) = thread.spawn(move || prepare(&medium, identity, index, bytes)) {
            self.spare = Spare::Preparing(handle);
        }
    }

    /// Removes the segments that hold nothing from `first_kept` on.
    pub fn truncate(&mut self, first_kept: u64) -> Result<(), JournalError> {
        self.first_kept = self.first_kept.max(first_kept);
        // A segment in use that has no group yet does not tell the last id: the one before it stays.
        let staying = 1 + usize::from(self.position == SECTOR_BYTES as u64);
        while self.segments.len() > staying && self.segments[0].last_id.is_none_or(|last| last < first_kept) {
            // Each removal is durable before the next begins: in another order a crash would leave a gap.
            remove(&self.medium, &segment_name(self.segments[0].index))?;
            self.segments.pop_front();
        }
        self.prepare_ahead();
        Ok(())
    }

    /// Hands out the records from the last truncation on.
    pub fn replay(&self, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), JournalError> {
        for Segment { index, before, .. } in &self.segments {
            let (image, _) =
                read_segment(&self.medium, *index)?.map_err(|damage| corrupt(&self.medium, *index, &damage))?;
            let mut visit_kept = |id, record: &[u8]| {
                if id >= self.first_kept && Some(id) <= self.last_id {
                    visit(id, record);
                }
            };
            if let Tail::Damaged(damage) = scan(&image, *index, *before, &mut visit_kept).tail {
                return Err(corrupt(&self.medium, *index, &damage));
            }
        }
        Ok(())
    }
}

impl<M: Medium> Drop for Log<M> {
    fn drop(&mut self) {
        // The thread holds the medium, and with it the lock that whoever opens the journal next needs.
        if let Spare::Preparing(thread) = std::mem::replace(&mut self.spare, Spare::None) {
            let _ = thread.join();
        }
    }
}

/// Overwrites the remains of a write with zeros, in an order in which a crash leaves nothing but remains of a write: what is behind
/// the first sector, then the mark of the header in it, then all of it.
fn blank<F: MediumFile>(file: &mut F, start: usize, end: usize) -> std::io::Result<()> {
    if end > start + SECTOR_BYTES {
        file.write((start + SECTOR_BYTES) as u64, &vec![0; end - start - SECTOR_BYTES])?;
    }
    file.write((start + GROUP_HEADER_BYTES - 1) as u64, &[0])?;
    file.write(start as u64, &[0; SECTOR_BYTES])
}

fn remove<M: Medium>(medium: &M, name: &str) -> Result<(), JournalError> {
    let removed = medium.remove(name).and_then(|()| medium.sync_names());
    removed.map_err(|error| JournalError::io("remove", medium.describe(name), error))
}

/// A segment with nothing but its header, complete before it has its name.
fn prepare<M: Medium>(medium: &M, identity: Identity, index: u64, bytes: u64) -> Result<M::File, JournalError> {
    let (preparing, name) = (preparing_name(index), segment_name(index));
    let make = || {
        if medium.list()?.contains(&preparing) {
            medium.remove(&preparing)?;
        }
        let mut file = medium.create(&preparing, bytes)?;
        file.write(0, &SegmentHeader { identity, index, bytes }.encode())?;
        medium.rename(&preparing, &name)?;
        medium.sync_names()?;
        Ok(file)
    };
    make().map_err(|error| JournalError::io("prepare", medium.describe(&name), error))
}
