//! The layout of a segment.
//!
//! A segment is a file of fixed length that was initially filled with zeros. Its first sector is the segment header.
//! Groups of records follow, each starting at a sector boundary, so that durable data never shares a sector with data
//! being written. All numbers are little-endian.
//!
//! ```text
//! segment header  512 B   magic 8 · format 2 · replica 2 · life 1 · 0 3 · epoch 32 · index 8 · bytes 8 · 0 444 ·
//!                         checksum 4
//! group           n*512 B each sector: 511 bytes of content and a mark; content: group header 32 · records · zeros
//! group header    32 B    magic 4 · checksum 4 · sequence 8 · index 8 · bytes 4 · records 4
//! record          16+n B  id 8 · length 4 · checksum 4 · bytes n
//! ```
//!
//! Checksums are CRC-32. A segment header's covers the 508 bytes before it, a group header's the 24 bytes after it, and
//! a record's the sequence and index of its group and the id, length and bytes of the record.
//!
//! The file of a truncated segment is reused without being zeroed, so new groups are surrounded by remains of old ones.
//! The *life* counts the uses of a file. The mark of a sector encodes the life in which it was written, and whether a
//! group begins there. Any two marks differ in at least two bits, and so does every mark from zero. So a sector that a
//! write did not reach or complete contains zero or the mark of an earlier life, a completed sector contains the mark
//! of this life, and no flipped bit turns one valid mark into another.

use bytes::Bytes;
use quorate_types::{Digest, EpochId, ReplicaId};
use std::ops::Range;

/// Replica whose promises a journal contains. Every segment names it, so the directory of another replica, another
/// cluster, or the same cluster with another genesis is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub epoch: EpochId,
    pub replica: ReplicaId,
}

/// The unit that a disk writes entirely or not at all, in bytes.
pub(crate) const SECTOR_BYTES: usize = 512;
/// The only supported format of a journal.
pub const FORMAT: u16 = 6;
pub(crate) const GROUP_HEADER_BYTES: usize = 32;
pub(crate) const RECORD_HEADER_BYTES: usize = 16;
/// Content bytes of a group per sector: all but the mark.
pub(crate) const CONTENT_BYTES: usize = SECTOR_BYTES - 1;
/// Maximum number of lives of a file, limited by the number of marks.
pub(crate) const MAX_LIVES: u8 = 63;
const SEGMENT_MAGIC: [u8; 8] = *b"qJournal";
const GROUP_MAGIC: [u8; 4] = *b"qJg2";

/// Returns the mark of a sector written in the life `life`, its last byte: a number from 1 to 126 and a parity bit.
fn mark(life: u8, begins_group: bool) -> u8 {
    assert!(life < MAX_LIVES, "a file is not reused after its last life");
    let number = 2 * life + u8::from(begins_group) + 1;
    number << 1 | (number.count_ones() & 1) as u8
}

/// Returns the life with the mark `byte`.
fn life_of(byte: u8) -> Option<u8> {
    (byte != 0 && byte.count_ones().is_multiple_of(2)).then(|| ((byte >> 1) - 1) / 2)
}

/// Returns whether no write in the life `life` reached the end of the sector.
pub(crate) fn is_unfinished(sector: &[u8], life: u8) -> bool {
    let last = sector[SECTOR_BYTES - 1];
    last == 0 || life_of(last).is_some_and(|earlier| earlier < life)
}

/// Returns whether a write in the life `life` touched the sector. A write that did not reach its end may go undetected.
pub(crate) fn is_touched(sector: &[u8], life: u8) -> bool {
    !is_unfinished(sector, life) || (sector[SECTOR_BYTES - 1] == 0 && !is_blank(sector))
}

/// Checks that every sector of a group was completely written in the life `life`. The error is the offset of the first
/// sector that was not.
pub(crate) fn check_marks(group: &[u8], life: u8) -> Result<(), usize> {
    let is_marked = |(at, sector): (usize, &[u8])| sector[SECTOR_BYTES - 1] == mark(life, at == 0);
    let mut sectors = group.chunks_exact(SECTOR_BYTES).enumerate();
    sectors.find(|sector| !is_marked(*sector)).map_or(Ok(()), |(at, _)| Err(at * SECTOR_BYTES))
}

/// Content of the first sector of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    pub identity: Identity,
    pub index: u64,
    pub bytes: u64,
    /// Number of earlier uses of the file.
    pub life: u8,
}

/// Reason why the first sector of a segment is not a valid header.
pub(crate) enum BadHeader {
    Damaged,
    Format(u16),
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SECTOR_BYTES] {
        let mut sector = [0; SECTOR_BYTES];
        sector[..8].copy_from_slice(&SEGMENT_MAGIC);
        sector[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        sector[10..12].copy_from_slice(&self.identity.replica.0.to_le_bytes());
        sector[12] = self.life;
        sector[16..48].copy_from_slice(&self.identity.epoch.0.0);
        sector[48..56].copy_from_slice(&self.index.to_le_bytes());
        sector[56..64].copy_from_slice(&self.bytes.to_le_bytes());
        let checksum = crc32fast::hash(&sector[..SECTOR_BYTES - 4]);
        sector[SECTOR_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        sector
    }

    pub fn decode(sector: &[u8]) -> Result<SegmentHeader, BadHeader> {
        let intact = sector.len() >= SECTOR_BYTES
            && sector[..8] == SEGMENT_MAGIC
            && u32_at(sector, SECTOR_BYTES - 4) == crc32fast::hash(&sector[..SECTOR_BYTES - 4]);
        if !intact {
            return Err(BadHeader::Damaged);
        }
        let format = u16_at(sector, 8);
        if format != FORMAT {
            return Err(BadHeader::Format(format));
        }
        let (life, bytes) = (sector[12], u64_at(sector, 56));
        if life >= MAX_LIVES || !bytes.is_multiple_of(SECTOR_BYTES as u64) {
            return Err(BadHeader::Damaged);
        }
        let epoch = EpochId(Digest(sector[16..48].try_into().expect("32 bytes")));
        let identity = Identity { epoch, replica: ReplicaId(u16_at(sector, 10)) };
        Ok(SegmentHeader { identity, index: u64_at(sector, 48), bytes, life })
    }
}

/// Record to be written, in shared pieces.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub id: u64,
    pub pieces: Vec<Bytes>,
    /// Total length of all pieces.
    pub bytes: usize,
}

impl Entry {
    pub fn new(id: u64, pieces: Vec<Bytes>) -> Entry {
        let bytes = pieces.iter().map(Bytes::len).sum();
        Entry { id, pieces, bytes }
    }
}

/// Content of a group before its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupHeader {
    /// Number of the group, counted across all segments.
    pub sequence: u64,
    /// Index of its segment.
    pub index: u64,
    /// Length on disk, including padding and marks.
    pub bytes: u32,
    pub records: u32,
}

impl GroupHeader {
    fn encode(&self) -> [u8; GROUP_HEADER_BYTES] {
        let mut header = [0; GROUP_HEADER_BYTES];
        header[..4].copy_from_slice(&GROUP_MAGIC);
        header[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        header[16..24].copy_from_slice(&self.index.to_le_bytes());
        header[24..28].copy_from_slice(&self.bytes.to_le_bytes());
        header[28..32].copy_from_slice(&self.records.to_le_bytes());
        let checksum = crc32fast::hash(&header[8..]);
        header[4..8].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    /// Decodes the header at the start of `bytes`, if a group of the life `life` begins there and its header is intact.
    pub fn decode(bytes: &[u8], life: u8) -> Option<GroupHeader> {
        let sector = bytes.get(..SECTOR_BYTES)?;
        let header = &sector[..GROUP_HEADER_BYTES];
        let is_header = sector[SECTOR_BYTES - 1] == mark(life, true)
            && header[..4] == GROUP_MAGIC
            && u32_at(header, 4) == crc32fast::hash(&header[8..]);
        is_header.then(|| GroupHeader {
            sequence: u64_at(header, 8),
            index: u64_at(header, 16),
            bytes: u32_at(header, 24),
            records: u32_at(header, 28),
        })
    }
}

/// Place of a group being written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub sequence: u64,
    pub index: u64,
    pub life: u8,
}

/// Returns the length on disk of a group with `content` bytes of records, including their headers.
pub(crate) fn group_bytes(content: usize) -> usize {
    (GROUP_HEADER_BYTES + content).div_ceil(CONTENT_BYTES) * SECTOR_BYTES
}

/// Encodes a group into `buffer`, replacing its content.
pub(crate) fn encode_group(place: Place, records: &[Entry], buffer: &mut Vec<u8>) {
    let Place { sequence, index, life } = place;
    let mark = self::mark(life, false);
    buffer.clear();
    put(buffer, &[0; GROUP_HEADER_BYTES], mark);
    for Entry { id, pieces, bytes } in records {
        let length = u32::try_from(*bytes).expect("a segment, and so a record, is below 4 GiB");
        let pieces = || pieces.iter().map(|piece| &piece[..]);
        let mut header = [0; RECORD_HEADER_BYTES];
        header[..8].copy_from_slice(&id.to_le_bytes());
        header[8..12].copy_from_slice(&length.to_le_bytes());
        header[12..].copy_from_slice(&record_checksum(sequence, index, *id, length, pieces()).to_le_bytes());
        put(buffer, &header, mark);
        pieces().for_each(|piece| put(buffer, piece, mark));
    }
    if !buffer.len().is_multiple_of(SECTOR_BYTES) {
        buffer.resize(buffer.len().next_multiple_of(SECTOR_BYTES), 0);
        *buffer.last_mut().expect("a group has at least one sector") = mark;
    }
    let header = GroupHeader {
        sequence,
        index,
        bytes: u32::try_from(buffer.len()).expect("a segment, and so a group, is below 4 GiB"),
        records: u32::try_from(records.len()).expect("a group has fewer records than bytes"),
    };
    buffer[..GROUP_HEADER_BYTES].copy_from_slice(&header.encode());
    buffer[SECTOR_BYTES - 1] = self::mark(life, true);
}

/// Appends content to a group, and the mark to each completed sector.
fn put(buffer: &mut Vec<u8>, mut content: &[u8], mark: u8) {
    while !content.is_empty() {
        let room = CONTENT_BYTES - buffer.len() % SECTOR_BYTES;
        let (now, rest) = content.split_at(room.min(content.len()));
        buffer.extend_from_slice(now);
        if now.len() == room {
            buffer.push(mark);
        }
        content = rest;
    }
}

/// Copies a group without its marks: header, records and padding.
pub(crate) fn take_content(group: &[u8], into: &mut Vec<u8>) {
    into.clear();
    into.reserve(group.len());
    group.chunks_exact(SECTOR_BYTES).for_each(|sector| into.extend_from_slice(&sector[..CONTENT_BYTES]));
}

/// Converts an offset in a group's content to an offset in the group on disk.
pub(crate) fn place_of(content: usize) -> usize {
    content / CONTENT_BYTES * SECTOR_BYTES + content % CONTENT_BYTES
}

pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    // Folding blocks without an early exit inside them lets the compiler use wide registers.
    bytes.chunks(64).all(|block| block.iter().fold(0, |bits, byte| bits | byte) == 0)
}

fn record_checksum<'a>(sequence: u64, index: u64, id: u64, length: u32, pieces: impl Iterator<Item = &'a [u8]>) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    [sequence, index, id].iter().for_each(|number| checksum.update(&number.to_le_bytes()));
    checksum.update(&length.to_le_bytes());
    pieces.for_each(|piece| checksum.update(piece));
    checksum.finalize()
}

/// Decodes the record at offset `at` of a group's content. Returns its id and the range of its bytes.
pub(crate) fn decode_record(
    group: &GroupHeader,
    content: &[u8],
    at: usize,
) -> Result<(u64, Range<usize>), &'static str> {
    let header = content.get(at..at + RECORD_HEADER_BYTES).ok_or("a record begins outside its group")?;
    let place = at + RECORD_HEADER_BYTES..(at + RECORD_HEADER_BYTES).saturating_add(u32_at(header, 8) as usize);
    let bytes = content.get(place.clone()).ok_or("a record extends beyond its group")?;
    let (id, length) = (u64_at(header, 0), u32_at(header, 8));
    if u32_at(header, 12) != record_checksum(group.sequence, group.index, id, length, std::iter::once(bytes)) {
        return Err("a record's checksum is wrong");
    }
    Ok((id, place))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
