//! Reads the groups of one segment, and judges what is not one.
//!
//! A group is written only when the one before it is durable. So a group that is not whole may be the remains of a write that a
//! crash interrupted only if nothing was written after it; and then it must look like such remains: sectors, or its end, are zeros
//! as they were before. Whatever else is not whole was whole once and has been damaged.

use crate::format::{
    GROUP_HEADER_BYTES, GroupHeader, SECTOR_BYTES, blank_sectors, decode_record, is_blank, is_padding,
};
use bytes::Bytes;
use std::ops::Range;

/// What stands behind the last whole group.
#[derive(Debug)]
pub(crate) enum Tail {
    /// Zeros to the end of the segment.
    Clean,
    /// The remains of an interrupted write, up to this offset; then zeros.
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

/// Reads the segment `image` with the index `index`, and hands each record of a whole group to `visit`.
pub(crate) fn scan(image: &[u8], index: u64, before: Before, visit: &mut dyn FnMut(u64, &[u8])) -> Scan {
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
    let mut spans = Vec::new();
    loop {
        let rest = &image[scan.end..];
        let header = GroupHeader::decode(rest);
        let Some(header) = header else {
            scan.tail = judge_without_header(image, scan.end, index, scan.next_sequence);
            return scan;
        };
        let group = match check_header(&header, rest, index, scan.next_sequence) {
            Ok(group) => group,
            Err(what) => {
                scan.tail = Tail::Damaged(Damage { offset: scan.end, what, intact: Vec::new() });
                return scan;
            }
        };
        if let Err((at, what)) = read_group(group, &header, scan.last_id, &mut spans) {
            let copy = |(id, content): &(u64, Range<usize>)| (*id, Bytes::copy_from_slice(&group[content.clone()]));
            let damage =
                Damage { offset: scan.end + at, what: what.to_owned(), intact: spans.iter().map(copy).collect() };
            scan.tail = judge_group(image, scan.end, &header, damage);
            return scan;
        }
        for (id, content) in spans.drain(..) {
            visit(id, &group[content]);
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

/// Finds the records of a group; or says where it is not whole, and leaves those before that in `spans`.
fn read_group(
    group: &[u8],
    header: &GroupHeader,
    mut last_id: Option<u64>,
    spans: &mut Vec<(u64, Range<usize>)>,
) -> Result<(), (usize, &'static str)> {
    spans.clear();
    let mut at = GROUP_HEADER_BYTES;
    for _ in 0..header.records {
        let (id, content) = decode_record(group, at).map_err(|what| (at, what))?;
        if last_id.is_some_and(|last| id <= last) {
            return Err((at, "a record's id is not above the one before"));
        }
        at = content.end;
        last_id = Some(id);
        spans.push((id, content));
    }
    if is_padding(&group[at..]) { Ok(()) } else { Err((at, "the padding behind a group's records is not as written")) }
}

/// A group whose header is whole and whose rest is not.
fn judge_group(image: &[u8], start: usize, header: &GroupHeader, mut damage: Damage) -> Tail {
    let end = start + header.bytes as usize;
    let group = &image[start..end];
    if let Some(later) = later_group(image, end, header.index, Some(header.sequence)) {
        damage.what += &format!("; a later group stands at byte {later}, so this one was durable");
        return Tail::Damaged(damage);
    }
    let interrupted = group.last() == Some(&0) || blank_sectors(group) > header.blank_sectors;
    if interrupted { Tail::Torn { end: written_end(image) } } else { Tail::Damaged(damage) }
}

/// Something that has no header of a group, or the end.
fn judge_without_header(image: &[u8], start: usize, index: u64, next_sequence: Option<u64>) -> Tail {
    let rest = &image[start..];
    if is_blank(rest) {
        return Tail::Clean;
    }
    let damaged = |what: String| Tail::Damaged(Damage { offset: start, what, intact: Vec::new() });
    let next = start + SECTOR_BYTES;
    if let Some(later) = later_group(image, next, index, next_sequence) {
        return damaged(format!("no group, though a later one stands at byte {later}"));
    }
    let (header, content) = rest.split_at(SECTOR_BYTES.min(rest.len()));
    let interrupted = is_blank(header) || (!GroupHeader::ends(header) && is_blank(content));
    if interrupted { Tail::Torn { end: written_end(image) } } else { damaged("a group's header is damaged".into()) }
}

/// Where, from `from` on, a group stands that was written after the one that should have the sequence number `expected`.
fn later_group(image: &[u8], from: usize, index: u64, expected: Option<u64>) -> Option<usize> {
    (from..image.len()).step_by(SECTOR_BYTES).find(|at| {
        GroupHeader::decode(&image[*at..])
            .is_some_and(|header| header.index == index && expected.is_none_or(|expected| header.sequence > expected))
    })
}

/// The end of the last sector that is not blank.
fn written_end(image: &[u8]) -> usize {
    let blank = image.rchunks(SECTOR_BYTES).take_while(|sector| is_blank(sector)).count();
    image.len() - blank * SECTOR_BYTES
}
