//! Reads all segments of a medium in order, and locates the break of their chain.

use crate::error::JournalError;
use crate::format::{BadHeader, FORMAT, GroupHeader, Identity, SECTOR_BYTES, SegmentHeader};
use crate::medium::{Medium, MediumFile};
use crate::scan::{Before, Damage, Scan, Tail, damage, scan, touched_end};

/// Name of the file that marks a journal as cut by a repair.
pub(crate) const REPAIRED_MARK: &str = "repaired";

const SEGMENT_SUFFIX: &str = ".segment";
/// Suffix of a segment in preparation; removed after a crash.
const PREPARING_SUFFIX: &str = ".preparing";
/// Suffix of a truncated segment's file kept for reuse; removed if an earlier process left it behind.
const RETIRED_SUFFIX: &str = ".retired";

pub(crate) fn segment_name(index: u64) -> String {
    format!("{index:012}{SEGMENT_SUFFIX}")
}

pub(crate) fn preparing_name(index: u64) -> String {
    format!("{index:012}{PREPARING_SUFFIX}")
}

pub(crate) fn retired_name(index: u64) -> String {
    format!("{index:012}{RETIRED_SUFFIX}")
}

/// Lists the files of a medium.
pub(crate) fn names<M: Medium>(medium: &M) -> Result<Vec<String>, JournalError> {
    medium.list().map_err(|error| JournalError::io("list", medium.describe(""), error))
}

/// Returns whether this file is a useless leftover of an earlier process.
pub(crate) fn is_left_over(name: &str) -> bool {
    name.ends_with(PREPARING_SUFFIX) || name.ends_with(RETIRED_SUFFIX)
}

fn segment_index(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX)?;
    digits.parse().ok().filter(|index| segment_name(*index) == name)
}

#[derive(Debug)]
pub(crate) struct Found {
    pub index: u64,
    pub bytes: u64,
    pub life: u8,
    pub scan: Scan,
}

/// Break of the chain of segments.
#[derive(Debug)]
pub(crate) struct Break {
    /// The segment, which may be missing.
    pub index: u64,
    /// End of its complete groups; zero if the segment is missing or its header is damaged.
    pub end: usize,
    pub damage: Damage,
}

/// Content of a medium.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The expected identity, or else the one in the first segment.
    pub identity: Option<Identity>,
    /// Segments up to the break, ascending. The damaged one is the last, unless its header is damaged.
    pub segments: Vec<Found>,
    pub broken: Option<Break>,
    /// Indices of all segments, ascending, including those after the break.
    pub indices: Vec<u64>,
}

impl Survey {
    /// Returns the break as an error.
    pub fn error<M: Medium>(&self, medium: &M) -> Option<JournalError> {
        self.broken.as_ref().map(|broken| corrupt(medium, broken.index, &broken.damage))
    }

    /// Returns the index in `segments` of the one being written: the last that is in use, or else the first.
    pub fn active(&self) -> usize {
        self.segments.iter().rposition(|found| !found.scan.is_unused()).unwrap_or(0)
    }

    fn before(&self) -> Before {
        let last = self.segments.last().map(|found| &found.scan);
        last.map_or(Before::default(), |scan| Before { next_sequence: scan.next_sequence, last_id: scan.last_id })
    }

    /// Adds the next segment. Returns the break, if the chain breaks there.
    fn add<M: Medium>(
        &mut self,
        medium: &M,
        index: u64,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Break>, JournalError> {
        if let Some(missing) = self.segments.last().map(|last| last.index + 1).filter(|next| *next != index) {
            let what = format!("the file is missing, though {} exists", segment_name(index));
            return Ok(Some(Break { index: missing, end: 0, damage: damage(0, what) }));
        }
        let (image, header) = match read_segment(medium, index)? {
            Ok(read) => read,
            Err(damage) => return Ok(Some(Break { index, end: 0, damage })),
        };
        let expected = *self.identity.get_or_insert(header.identity);
        check_identity(&medium.describe(&segment_name(index)), header.identity, expected)?;
        if let Some(broken) = self.break_before(&image, header.life) {
            return Ok(Some(broken));
        }
        let mut scan = scan(&image, &header, self.before(), visit);
        let broken = match std::mem::replace(&mut scan.tail, Tail::Clean) {
            Tail::Damaged(damage) => Some(Break { index, end: scan.end, damage }),
            tail => {
                scan.tail = tail;
                None
            }
        };
        self.segments.push(Found { index, bytes: header.bytes, life: header.life, scan });
        Ok(broken)
    }

    /// Returns damage in earlier segments that is revealed because this segment, `image`, is in use: the earlier ones
    /// were complete when it began.
    fn break_before(&self, image: &[u8], life: u8) -> Option<Break> {
        let last = self.segments.last()?;
        if touched_end(image, SECTOR_BYTES, life) == SECTOR_BYTES {
            return None;
        }
        let torn = self.segments.iter().find(|found| matches!(found.scan.tail, Tail::Torn { .. }));
        if let Some(Found { index, scan, .. }) = torn {
            let what = "a group is incomplete, though later segments are in use".to_owned();
            return Some(Break { index: *index, end: scan.end, damage: damage(scan.end, what) });
        }
        let next = last.scan.next_sequence?;
        let found = GroupHeader::decode(&image[SECTOR_BYTES..], life)
            .map(|header| header.sequence)
            .filter(|found| *found > next)?;
        let what = format!("groups {next} to {} are missing", found - 1);
        Some(Break { index: last.index, end: last.scan.end, damage: damage(last.scan.end, what) })
    }
}

/// Returns the error for `damage` in the segment `index`.
pub(crate) fn corrupt<M: Medium>(medium: &M, index: u64, damage: &Damage) -> JournalError {
    let file = medium.describe(&segment_name(index));
    JournalError::Corrupt { file, offset: damage.offset as u64, what: damage.what.clone() }
}

/// Reads every segment on `medium`. `visit` receives the records of all complete groups before the first break.
pub(crate) fn survey<M: Medium>(
    medium: &M,
    expected: Option<Identity>,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> Result<Survey, JournalError> {
    let mut indices: Vec<u64> = names(medium)?.iter().filter_map(|name| segment_index(name)).collect();
    indices.sort_unstable();
    let mut survey = Survey { identity: expected, segments: Vec::new(), broken: None, indices };
    for at in 0..survey.indices.len() {
        survey.broken = survey.add(medium, survey.indices[at], visit)?;
        if survey.broken.is_some() {
            break;
        }
    }
    Ok(survey)
}

/// Reads a segment. The inner result contains its bytes and its header, or its damage.
pub(crate) fn read_segment<M: Medium>(
    medium: &M,
    index: u64,
) -> Result<Result<(Vec<u8>, SegmentHeader), Damage>, JournalError> {
    let name = segment_name(index);
    let fail = |error| JournalError::io("read", medium.describe(&name), error);
    let file = medium.open(&name).map_err(fail)?;
    let bytes = file.bytes().map_err(fail)?;
    let mut sector = [0; SECTOR_BYTES];
    if bytes < SECTOR_BYTES as u64 {
        return Ok(Err(damage(0, format!("the file is {bytes} bytes, shorter than its header"))));
    }
    file.read(0, &mut sector).map_err(fail)?;
    let header = match SegmentHeader::decode(&sector) {
        Ok(header) => header,
        Err(BadHeader::Damaged) => return Ok(Err(damage(0, "the segment's header is damaged".to_owned()))),
        Err(BadHeader::Format(found)) => {
            return Err(JournalError::Format { file: medium.describe(&name), found, expected: FORMAT });
        }
    };
    if header.index != index {
        return Ok(Err(damage(0, format!("the file holds segment {}", header.index))));
    }
    if header.bytes != bytes {
        return Ok(Err(damage(0, format!("the file is {bytes} bytes, expected {}", header.bytes))));
    }
    let mut image = vec![0; usize::try_from(bytes).expect("a valid segment fits in memory")];
    file.read(0, &mut image).map_err(fail)?;
    Ok(Ok((image, header)))
}

fn check_identity(file: &str, found: Identity, expected: Identity) -> Result<(), JournalError> {
    let file = file.to_owned();
    if found.epoch != expected.epoch {
        return Err(JournalError::ForeignEpoch { file, found: found.epoch, expected: expected.epoch });
    }
    if found.replica != expected.replica {
        return Err(JournalError::ForeignReplica { file, found: found.replica, expected: expected.replica });
    }
    Ok(())
}
