//! Reading of a segment, which distinguishes the remains of an interrupted write from damage.
//!
//! A group is written only after the previous one is durable. So an incomplete group can be the remains of an
//! interrupted write only if nothing was written after it, and if one of its sectors still has its earlier mark. Every
//! other incomplete group was complete once and is damaged.

use crate::format::{
    GROUP_HEADER_BYTES, GroupHeader, SECTOR_BYTES, SegmentHeader, check_marks, decode_record, is_blank, is_touched,
    is_unfinished, place_of, take_content,
};
use bytes::Bytes;
use std::ops::Range;

/// Content of a segment after its last complete group.
#[derive(Debug)]
pub(crate) enum Tail {
    /// Nothing was written in this life of the file.
    Clean,
    /// Remains of an interrupted write up to `end`, and nothing after them.
    Torn { end: usize },
    /// A group that was complete once.
    Damaged(Damage),
}

/// Damage in a segment.
#[derive(Debug)]
pub(crate) struct Damage {
    /// In bytes from the start of the segment.
    pub offset: usize,
    pub what: String,
    /// Records of the damaged group that precede the damage.
    pub intact: Vec<(u64, Bytes)>,
}

pub(crate) fn damage(offset: usize, what: String) -> Damage {
    Damage { offset, what, intact: Vec::new() }
}

/// Content of a segment.
#[derive(Debug)]
pub(crate) struct Scan {
    /// End of the complete groups.
    pub end: usize,
    /// Sequence number required of the next group; unknown if no group precedes it.
    pub next_sequence: Option<u64>,
    pub records: u64,
    pub first_id: Option<u64>,
    /// Last id in this segment, or in earlier ones if this one has none.
    pub last_id: Option<u64>,
    /// Position of the last complete group.
    pub last_group: Option<Range<usize>>,
    pub tail: Tail,
}

impl Scan {
    /// Returns whether nothing was ever written after the segment header.
    pub fn is_unused(&self) -> bool {
        self.last_group.is_none() && matches!(self.tail, Tail::Clean)
    }
}

/// State after the previous segments.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Before {
    pub next_sequence: Option<u64>,
    pub last_id: Option<u64>,
}

/// Reads the segment `image` with the header `segment`. `visit` receives each record of a complete group.
pub(crate) fn scan(image: &[u8], segment: &SegmentHeader, before: Before, visit: &mut dyn FnMut(u64, &[u8])) -> Scan {
    let Before { next_sequence, last_id } = before;
    let mut scan = Scan {
        end: SECTOR_BYTES,
        next_sequence,
        records: 0,
        first_id: None,
        last_id,
        last_group: None,
        tail: Tail::Clean,
    };
    let (mut spans, mut content) = (Vec::new(), Vec::new());
    loop {
        let rest = &image[scan.end..];
        let Some(header) = GroupHeader::decode(rest, segment.life) else {
            scan.tail = judge_without_header(image, scan.end, segment, scan.next_sequence);
            return scan;
        };
        let group = match check_header(&header, rest, segment.index, scan.next_sequence) {
            Ok(group) => group,
            Err(what) => {
                scan.tail = Tail::Damaged(damage(scan.end, what));
                return scan;
            }
        };
        take_content(group, &mut content);
        let whole = read_group(&content, &header, scan.last_id, &mut spans).and_then(|()| {
            check_marks(group, segment.life).map_err(|at| (at, "a sector of a group has the wrong mark"))
        });
        if let Err((at, what)) = whole {
            let copy = |(id, place): &(u64, Range<usize>)| (*id, Bytes::copy_from_slice(&content[place.clone()]));
            let damage =
                Damage { offset: scan.end + at, what: what.to_owned(), intact: spans.iter().map(copy).collect() };
            scan.tail = judge_group(image, scan.end, segment, &header, damage);
            return scan;
        }
        for (id, place) in spans.drain(..) {
            visit(id, &content[place]);
            scan.records += 1;
            scan.first_id.get_or_insert(id);
            scan.last_id = Some(id);
        }
        scan.last_group = Some(scan.end..scan.end + group.len());
        scan.end += group.len();
        scan.next_sequence = Some(header.sequence + 1);
    }
}

/// Checks that a header is plausible. Returns the bytes of its group, which begins `rest`.
fn check_header<'a>(
    header: &GroupHeader,
    rest: &'a [u8],
    index: u64,
    next_sequence: Option<u64>,
) -> Result<&'a [u8], String> {
    if header.index != index {
        return Err(format!("found a group of segment {} in segment {index}", header.index));
    }
    if let Some(expected) = next_sequence.filter(|expected| *expected != header.sequence) {
        return Err(format!("found group {}, expected group {expected}", header.sequence));
    }
    let bytes = header.bytes as usize;
    if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(format!("a group claims {bytes} bytes, which is not a multiple of {SECTOR_BYTES}"));
    }
    rest.get(..bytes).ok_or_else(|| format!("a group of {bytes} bytes extends beyond the segment"))
}

/// Finds the records in the content of a group. The error is the offset on disk and the kind of the damage; then
/// `spans` contains the records before it.
fn read_group(
    content: &[u8],
    header: &GroupHeader,
    mut last_id: Option<u64>,
    spans: &mut Vec<(u64, Range<usize>)>,
) -> Result<(), (usize, &'static str)> {
    spans.clear();
    let mut at = GROUP_HEADER_BYTES;
    for _ in 0..header.records {
        let (id, place) = decode_record(header, content, at).map_err(|what| (place_of(at), what))?;
        if last_id.is_some_and(|last| id <= last) {
            return Err((place_of(at), "a record's id does not exceed the previous one"));
        }
        at = place.end;
        last_id = Some(id);
        spans.push((id, place));
    }
    if is_blank(&content[at..]) { Ok(()) } else { Err((place_of(at), "the padding of a group is not zero")) }
}

/// Classifies a group with an intact header and damaged content.
fn judge_group(image: &[u8], start: usize, segment: &SegmentHeader, header: &GroupHeader, mut damage: Damage) -> Tail {
    let end = start + header.bytes as usize;
    if let Some(later) = later_group(image, end, segment, Some(header.sequence)) {
        damage.what += &format!("; there is a later group at byte {later}, so this one was durable");
        return Tail::Damaged(damage);
    }
    let mut sectors = image[start..end].chunks_exact(SECTOR_BYTES);
    if sectors.any(|sector| is_unfinished(sector, segment.life)) {
        Tail::Torn { end: touched_end(image, start, segment.life) }
    } else {
        Tail::Damaged(damage)
    }
}

/// Classifies the rest of a segment that does not begin with a group header.
fn judge_without_header(image: &[u8], start: usize, segment: &SegmentHeader, next_sequence: Option<u64>) -> Tail {
    let end = touched_end(image, start, segment.life);
    if end == start {
        return Tail::Clean;
    }
    let damaged = |what: String| Tail::Damaged(damage(start, what));
    if let Some(later) = later_group(image, start + SECTOR_BYTES, segment, next_sequence) {
        return damaged(format!("a group is missing; there is a later one at byte {later}"));
    }
    if is_unfinished(&image[start..start + SECTOR_BYTES], segment.life) {
        Tail::Torn { end }
    } else {
        damaged("a group header is damaged".into())
    }
}

/// Returns the offset, at or after `from`, of a group that was written after the one with the sequence number
/// `expected`.
fn later_group(image: &[u8], from: usize, segment: &SegmentHeader, expected: Option<u64>) -> Option<usize> {
    (from..image.len()).step_by(SECTOR_BYTES).find(|at| {
        GroupHeader::decode(&image[*at..], segment.life).is_some_and(|header| {
            header.index == segment.index && expected.is_none_or(|expected| header.sequence > expected)
        })
    })
}

/// Returns the end of the last sector at or after `start` that was written in the life `life`, or `start`.
pub(crate) fn touched_end(image: &[u8], start: usize, life: u8) -> usize {
    let untouched = image[start..].rchunks_exact(SECTOR_BYTES).take_while(|sector| !is_touched(sector, life)).count();
    image.len() - untouched * SECTOR_BYTES
}
