//! Reads a segment, and tells the remains of an interrupted write from damage.
//!
//! A group is written only when the one before it is durable. So what is not whole may be the remains of a write that a
//! crash interrupted only if nothing was written after it; and then it must look like such remains: the mark of a sector is still the one
//! from before. Whatever else is not whole was whole once and has been damaged.

use crate::format::{
    GROUP_HEADER_BYTES, GroupHeader, SECTOR_BYTES, SegmentHeader, check_marks, decode_record, is_blank, is_touched,
    is_unfinished, place_of, take_content,
};
use bytes::Bytes;
use std::ops::Range;

/// What stands behind the last whole group.
#[derive(Debug)]
pub(crate) enum Tail {
    /// Nothing of this life of the file.
    Clean,
    /// The remains of an interrupted write, up to this offset; then nothing of this life of the file.
    Torn { end: usize },
    /// Something that was whole once.
    Damaged(Damage),
}

/// What is wrong in a segment.
#[derive(Debug)]
pub(crate) struct Damage {
    /// Where, in bytes from the beginning of the segment.
    pub offset: usize,
    /// What.
    pub what: String,
    /// The records of the damaged group that stand before the damage.
    pub intact: Vec<(u64, Bytes)>,
}

/// What was found in a segment.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Where the whole groups end.
    pub end: usize,
    /// The sequence number that the next group must have; unknown if there was none before it.
    pub next_sequence: Option<u64>,
    pub records: u64,
    pub first_id: Option<u64>,
    /// The last id in this segment or, if it has none, in those before.
    pub last_id: Option<u64>,
    /// Where the last whole group lies.
    pub last_group: Option<Range<usize>>,
    pub tail: Tail,
}

impl Scan {
    /// Whether nothing was ever written behind the segment's header.
    pub fn is_unused(&self) -> bool {
        self.last_group.is_none() && matches!(self.tail, Tail::Clean)
    }
}

/// What is known from the segments before.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Before {
    pub next_sequence: Option<u64>,
    pub last_id: Option<u64>,
}

/// Reads the segment `image`, whose header is `segment`, and hands each record of a whole group to `visit`.
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
                scan.tail = Tail::Damaged(Damage { offset: scan.end, what, intact: Vec::new() });
                return scan;
            }
        };
        take_content(group, &mut content);
        let whole = read_group(&content, &header, scan.last_id, &mut spans).and_then(|()| {
            check_marks(group, segment.life).map_err(|at| (at, "a sector of a group does not end with its mark"))
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

/// The bytes of the group that begins `rest`, if its header can be true.
fn check_header<'a>(
    header: &GroupHeader,
    rest: &'a [u8],
    index: u64,
    next_sequence: Option<u64>,
) -> Result<&'a [u8], String> {
    if header.index != index {
        return Err(format!("a group of segment {} stands in segment {index}", header.index));
    }
    if let Some(expected) = next_sequence.filter(|expected| *expected != header.sequence) {
        return Err(format!("group {} stands where group {expected} is expected", header.sequence));
    }
    let bytes = header.bytes as usize;
    if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(format!("a group claims to have {bytes} bytes, which are no whole sectors"));
    }
    rest.get(..bytes).ok_or_else(|| format!("a group of {bytes} bytes reaches beyond the segment"))
}

/// Finds the records in the content of a group; or says where on the disk it is not whole, and leaves those before that in `spans`.
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
            return Err((place_of(at), "a record's id is not above the one before"));
        }
        at = place.end;
        last_id = Some(id);
        spans.push((id, place));
    }
    match is_blank(&content[at..]) {
        true => Ok(()),
        false => Err((place_of(at), "the padding behind a group's records is not as written")),
    }
}

/// A group whose header is whole and whose rest is not.
fn judge_group(image: &[u8], start: usize, segment: &SegmentHeader, header: &GroupHeader, mut damage: Damage) -> Tail {
    let end = start + header.bytes as usize;
    if let Some(later) = later_group(image, end, segment, Some(header.sequence)) {
        damage.what += &format!("; a later group stands at byte {later}, so this one was durable");
        return Tail::Damaged(damage);
    }
    let mut sectors = image[start..end].chunks_exact(SECTOR_BYTES);
    match sectors.any(|sector| is_unfinished(sector, segment.life)) {
        true => Tail::Torn { end: touched_end(image, start, segment.life) },
        false => Tail::Damaged(damage),
    }
}

/// Something that has no header of a group, or the end.
fn judge_without_header(image: &[u8], start: usize, segment: &SegmentHeader, next_sequence: Option<u64>) -> Tail {
    let end = touched_end(image, start, segment.life);
    if end == start {
        return Tail::Clean;
    }
    let damaged = |what: String| Tail::Damaged(Damage { offset: start, what, intact: Vec::new() });
    if let Some(later) = later_group(image, start + SECTOR_BYTES, segment, next_sequence) {
        return damaged(format!("no group, though a later one stands at byte {later}"));
    }
    match is_unfinished(&image[start..start + SECTOR_BYTES], segment.life) {
        true => Tail::Torn { end },
        false => damaged("a group's header is damaged".into()),
    }
}

/// Where, from `from` on, a group stands that was written after the one that should have the sequence number `expected`.
fn later_group(image: &[u8], from: usize, segment: &SegmentHeader, expected: Option<u64>) -> Option<usize> {
    (from..image.len()).step_by(SECTOR_BYTES).find(|at| {
        GroupHeader::decode(&image[*at..], segment.life).is_some_and(|header| {
            header.index == segment.index && expected.is_none_or(|expected| header.sequence > expected)
        })
    })
}

/// The end of the last sector from `start` on to which something was written in the life `life`, or `start`.
pub(crate) fn touched_end(image: &[u8], start: usize, life: u8) -> usize {
    let untouched = image[start..].rchunks_exact(SECTOR_BYTES).take_while(|sector| !is_touched(sector, life)).count();
    image.len() - untouched * SECTOR_BYTES
}
