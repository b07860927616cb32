//! The journal proper, one call at a time: what a thread does in a node, and what a simulator does in virtual time.

use crate::error::JournalError;
use crate::format::{
    CONTENT_BYTES, Entry, GROUP_HEADER_BYTES, Place, RECORD_HEADER_BYTES, SECTOR_BYTES, encode_group, group_bytes,
};
use crate::medium::{Medium, MediumFile};
use crate::options::{Identity, JournalOptions};
use crate::repair::REPAIRED_MARK;
use crate::scan::{Before, Tail, scan};
use crate::supply::{Empty, Supply, remove};
use crate::survey::{Found, Survey, corrupt, is_left_over, read_segment, segment_name, survey};
use std::collections::VecDeque;

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
    /// How often its file was used before.
    life: u8,
    last_id: Option<u64>,
    /// What was known when it began: where a replay that begins here starts from.
    before: Before,
}

/// Segments and the place where the next group goes. After an error nothing may be called but [`Log::replay`].
pub(crate) struct Log<M: Medium> {
    medium: M,
    segment_bytes: u64,
    capacity_bytes: u64,
    supply: Supply<M>,
    /// Ascending; the last is the one in use.
    segments: VecDeque<Segment>,
    active: M::File,
    position: u64,
    next_sequence: u64,
    last_id: Option<u64>,
    first_kept: u64,
    buffer: Vec<u8>,
}

/// The most bytes that one record may have.
pub(crate) fn record_capacity(segment_bytes: u64) -> usize {
    let sectors = usize::try_from(segment_bytes).expect("a valid segment fits the memory") / SECTOR_BYTES;
    (sectors - 1) * CONTENT_BYTES - GROUP_HEADER_BYTES - RECORD_HEADER_BYTES
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
        for name in names.iter().filter(|name| is_left_over(name)) {
            remove(&medium, name)?;
        }
        // An earlier process may have named a segment and ended before the name was durable.
        medium.sync_names().map_err(|error| JournalError::io("sync", medium.describe(""), error))?;
        let repaired = names.iter().any(|name| name == REPAIRED_MARK);
        let mut supply = Supply::new(medium.clone(), identity, options.segment_bytes, ahead);
        if found.segments.is_empty() {
            let Empty { file, life } = supply.take(0, true)?.expect("there is room for a first segment");
            let before = Before::default();
            let first = Segment { index: 0, bytes: options.segment_bytes, life, last_id: None, before };
            let log = Log::new(medium, options, supply, VecDeque::from([first]), file);
            return Ok((log, Recovery { records: 0, segments: 1, last_id: None, cut: None, repaired }));
        }
        Log::resume(medium, options, supply, found, repaired)
    }

    fn new(
        medium: M,
        options: &JournalOptions,
        supply: Supply<M>,
        segments: VecDeque<Segment>,
        active: M::File,
    ) -> Log<M> {
        let mut log = Log {
            medium,
            segment_bytes: options.segment_bytes,
            capacity_bytes: options.capacity_bytes,
            supply,
            segments,
            active,
            position: SECTOR_BYTES as u64,
            next_sequence: 0,
            last_id: None,
            first_kept: 0,
            buffer: Vec::new(),
        };
        log.prepare_ahead();
        log
    }

    fn resume(
        medium: M,
        options: &JournalOptions,
        mut supply: Supply<M>,
        survey: Survey,
        repaired: bool,
    ) -> Result<(Log<M>, Recovery), JournalError> {
        let active = survey.active();
        let mut found = survey.segments;
        // The highest first, so that a crash in between leaves no gap.
        for (at, unused) in found.split_off(active + 1).iter().enumerate().rev() {
            let name = segment_name(unused.index);
            if at == 0 && unused.bytes == options.segment_bytes {
                // As below: its header may be in the cache alone.
                let file = medium.open(&name).and_then(|file| file.sync().map(|()| file));
                let file = file.map_err(|error| JournalError::io("open", medium.describe(&name), error))?;
                supply.adopt(Empty { file, life: unused.life });
            } else {
                remove(&medium, &name)?;
            }
        }
        let records = found.iter().map(|segment| segment.scan.records).sum();
        let mut segments = VecDeque::new();
        let mut before = Before::default();
        for Found { index, bytes, life, scan } in &found {
            // What an earlier process wrote may be in the cache alone.
            let synced = medium.open(&segment_name(*index)).and_then(|file| file.sync());
            synced.map_err(|error| JournalError::io("sync", medium.describe(&segment_name(*index)), error))?;
            segments.push_back(Segment { index: *index, bytes: *bytes, life: *life, last_id: scan.last_id, before });
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
        let mut log = Log::new(medium, options, supply, segments, active);
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
        let place = Place { sequence: self.next_sequence, index: segment.index, life: segment.life };
        encode_group(place, group, &mut self.buffer);
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

    /// Whether a further file would leave the journal within its bounds, if none waits to be used again.
    fn has_room(&self) -> bool {
        self.bytes() + self.segment_bytes <= self.capacity_bytes
    }

    fn next_index(&self) -> u64 {
        self.segments.back().expect("one segment is in use").index + 1
    }

    fn next_segment(&mut self) -> Result<(), JournalError> {
        let (index, has_room) = (self.next_index(), self.has_room());
        let Some(Empty { file, life }) = self.supply.take(index, has_room)? else {
            return Err(JournalError::Full { bytes: self.bytes(), capacity: self.capacity_bytes });
        };
        self.active = file;
        let before = Before { next_sequence: Some(self.next_sequence), last_id: self.last_id };
        self.segments.push_back(Segment { index, bytes: self.segment_bytes, life, last_id: self.last_id, before });
        self.position = SECTOR_BYTES as u64;
        self.prepare_ahead();
        Ok(())
    }

    fn prepare_ahead(&mut self) {
        let (index, has_room) = (self.next_index(), self.has_room());
        self.supply.prepare_ahead(index, has_room);
    }

    /// Cuts off the segments that hold nothing from `first_kept` on.
    pub fn truncate(&mut self, first_kept: u64) -> Result<(), JournalError> {
        self.first_kept = self.first_kept.max(first_kept);
        // A segment in use that has no group yet does not tell the last id: the one before it stays.
        let staying = 1 + usize::from(self.position == SECTOR_BYTES as u64);
        while self.segments.len() > staying && self.segments[0].last_id.is_none_or(|last| last < first_kept) {
            let Segment { index, bytes, life, .. } = self.segments[0];
            // Each is gone durably before the next goes: in another order a crash would leave a gap.
            self.supply.retire(index, bytes, life)?;
            self.segments.pop_front();
        }
        self.prepare_ahead();
        Ok(())
    }

    /// Hands out the records from the last truncation on.
    pub fn replay(&self, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), JournalError> {
        for Segment { index, before, .. } in &self.segments {
            let (image, header) =
                read_segment(&self.medium, *index)?.map_err(|damage| corrupt(&self.medium, *index, &damage))?;
            let mut visit_kept = |id, record: &[u8]| {
                if id >= self.first_kept && Some(id) <= self.last_id {
                    visit(id, record);
                }
            };
            if let Tail::Damaged(damage) = scan(&image, &header, *before, &mut visit_kept).tail {
                return Err(corrupt(&self.medium, *index, &damage));
            }
        }
        Ok(())
    }
}

/// Overwrites the remains of a write with zeros, in an order in which a crash leaves nothing but remains of a write: what is behind
/// the first sector, then its mark, then all of it. None of it may be left: the next write there has the same life and number.
fn blank<F: MediumFile>(file: &mut F, start: usize, end: usize) -> std::io::Result<()> {
    if end > start + SECTOR_BYTES {
        file.write((start + SECTOR_BYTES) as u64, &vec![0; end - start - SECTOR_BYTES])?;
    }
    file.write((start + CONTENT_BYTES) as u64, &[0])?;
    file.write(start as u64, &[0; SECTOR_BYTES])
}
