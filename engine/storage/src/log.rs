//! The journal's operations, one call at a time. A node calls them on a thread, a simulator in virtual time.

use crate::error::JournalError;
use crate::format::{
    CONTENT_BYTES, Entry, GROUP_HEADER_BYTES, Identity, Place, RECORD_HEADER_BYTES, SECTOR_BYTES, encode_group,
    group_bytes,
};
use crate::medium::{Medium, MediumFile};
use crate::options::JournalOptions;
use crate::scan::{Before, Tail, scan};
use crate::supply::{Empty, Supply, remove};
use crate::survey::{Found, REPAIRED_MARK, Survey, corrupt, is_left_over, names, read_segment, segment_name, survey};
use std::collections::VecDeque;

/// Maximum size of a group with several records, in bytes. In a longer group the first record would wait long for the
/// last.
const GROUP_BYTES: usize = 1 << 20;

/// Result of opening a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// Records that can be replayed.
    pub records: u64,
    /// Number of segment files in use.
    pub segments: usize,
    /// The highest id; `None` if the journal is new or has lost all its records.
    pub last_id: Option<u64>,
    /// Remains of an interrupted write, which were removed. They were never reported durable.
    pub cut: Option<Cut>,
    /// Whether a repair has removed damaged records. Durable records may be missing, so the replica must not vote based
    /// on the remaining ones alone.
    pub repaired: bool,
}

/// Remains of an interrupted write, in bytes from the start of the segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
}

struct Segment {
    index: u64,
    bytes: u64,
    /// Number of earlier uses of its file.
    life: u8,
    last_id: Option<u64>,
    /// State at its beginning, from which replaying this segment starts.
    before: Before,
}

/// Segments, and the position of the next group. After an error only [`Log::replay`] may be called.
pub(crate) struct Log<M: Medium> {
    medium: M,
    segment_bytes: u64,
    capacity_bytes: u64,
    supply: Supply<M>,
    /// Ascending; the last one is being written.
    segments: VecDeque<Segment>,
    active: M::File,
    position: u64,
    next_sequence: u64,
    last_id: Option<u64>,
    first_kept: u64,
    buffer: Vec<u8>,
}

/// Returns the maximum size of a record, in bytes.
pub(crate) fn record_capacity(segment_bytes: u64) -> usize {
    let sectors = usize::try_from(segment_bytes).expect("a valid segment fits in memory") / SECTOR_BYTES;
    (sectors - 1) * CONTENT_BYTES - GROUP_HEADER_BYTES - RECORD_HEADER_BYTES
}

impl<M: Medium> Log<M> {
    /// Opens the journal on `medium` and removes the remains of an interrupted write. `ahead` prepares the next segment
    /// on a thread.
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
        let names = names(&medium)?;
        for name in names.iter().filter(|name| is_left_over(name)) {
            remove(&medium, name)?;
        }
        // An earlier process may have ended before the name of its last segment was durable.
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
        // In descending order, so that a crash leaves no gap.
        for (at, unused) in found.split_off(active + 1).iter().enumerate().rev() {
            let name = segment_name(unused.index);
            if at == 0 && unused.bytes == options.segment_bytes {
                // As below: its header may only be in the cache.
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
            // The writes of an earlier process may only be in the cache.
            let synced = medium.open(&segment_name(*index)).and_then(|file| file.sync());
            synced.map_err(|error| JournalError::io("sync", medium.describe(&segment_name(*index)), error))?;
            segments.push_back(Segment { index: *index, bytes: *bytes, life: *life, last_id: scan.last_id, before });
            before = Before { next_sequence: scan.next_sequence, last_id: scan.last_id };
        }
        let Found { index, scan, .. } = found.pop().expect("a resumed journal has a segment");
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
            // A failed write may have left its group in the cache marked as clean, so that no sync would write it
            // again.
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

    /// Returns the highest id that is written.
    pub fn last_id(&self) -> Option<u64> {
        self.last_id
    }

    pub fn name(&self) -> &'static str {
        self.medium.name()
    }

    pub fn accept_repair(&mut self) -> Result<(), JournalError> {
        if names(&self.medium)?.iter().any(|name| name == REPAIRED_MARK) {
            remove(&self.medium, REPAIRED_MARK)?;
        }
        Ok(())
    }

    /// Writes a group with as many `records`, starting from the first, as fit. Returns their number; they are durable
    /// on return.
    pub fn write(&mut self, records: &[Entry]) -> Result<usize, JournalError> {
        assert!(!records.is_empty(), "a group has records");
        let mut count = self.fitting(records);
        if count == 0 {
            self.next_segment()?;
            count = self.fitting(records);
            assert!(count > 0, "a record larger than a segment is refused when it is appended");
        }
        let group = &records[..count];
        let segment = self.segments.back_mut().expect("one segment is in use");
        let place = Place { sequence: self.next_sequence, index: segment.index, life: segment.life };
        encode_group(place, group, &mut self.buffer);
        let fail = |error| JournalError::io("write", self.medium.describe(&segment_name(segment.index)), error);
        self.active.write(self.position, &self.buffer).map_err(fail)?;
        self.position += self.buffer.len() as u64;
        self.next_sequence += 1;
        self.last_id = group.last().map(|entry| entry.id);
        segment.last_id = self.last_id;
        Ok(count)
    }

    fn fitting(&self, records: &[Entry]) -> usize {
        let segment = self.segments.back().expect("one segment is in use");
        let room = usize::try_from(segment.bytes - self.position).expect("a segment fits in memory");
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

    /// Returns whether another file fits within the capacity, if none is available for reuse.
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

    /// Removes the segments that contain only records below `first_kept`.
    pub fn truncate(&mut self, first_kept: u64) -> Result<(), JournalError> {
        self.first_kept = self.first_kept.max(first_kept);
        // An empty segment does not contain the last id, so the one before it stays.
        let staying = 1 + usize::from(self.position == SECTOR_BYTES as u64);
        while self.segments.len() > staying && self.segments[0].last_id.is_none_or(|last| last < first_kept) {
            let Segment { index, bytes, life, .. } = self.segments[0];
            // Each removal is durable before the next: otherwise a crash could leave a gap.
            self.supply.retire(index, bytes, life)?;
            self.segments.pop_front();
        }
        self.prepare_ahead();
        Ok(())
    }

    /// Visits the records from the last truncation on.
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

/// Overwrites the remains of a write with zeros: first everything after the first sector, then its mark, then the
/// sector. In this order, a crash leaves only remains of a write. None of them may stay, because the next write there
/// has the same life and sequence number.
fn blank<F: MediumFile>(file: &mut F, start: usize, end: usize) -> std::io::Result<()> {
    if end > start + SECTOR_BYTES {
        file.write((start + SECTOR_BYTES) as u64, &vec![0; end - start - SECTOR_BYTES])?;
    }
    file.write((start + CONTENT_BYTES) as u64, &[0])?;
    file.write(start as u64, &[0; SECTOR_BYTES])
}
