//! The layout of a segment.
//!
//! A segment is a file of fixed length that was written full of zeros. Its first sector is the segment's header; groups of records
//! follow, each beginning at a sector: what is durable never shares a sector with what is being written. All numbers are
//! little-endian.
//!
//! ```text
//! segment header  512 B   magic 8 · format 2 · replica 2 · 0 4 · cluster 32 · index 8 · bytes 8 · 0 444 · checksum 4
//! group           n*512 B group header 48 · records · at least one byte of padding: zeros, the last byte is MARK
//! group header    48 B    magic 4 · checksum 4 · sequence 8 · index 8 · bytes 4 · records 4 · blank sectors 4 · 0 11 · MARK 1
//! record          16+n B  id 8 · length 4 · checksum 4 · bytes n
//! ```
//!
//! Checksums are CRC-32: of the 508 bytes before it, of the 40 bytes after it, and of id, length and bytes. The blank sectors are
//! those of the group that are all zero though they were written so, and the marks are bytes that no group lacks: both serve to
//! tell a write that was interrupted, which leaves zeros, from one that was whole and has been damaged since.

use crate::options::Identity;
use bytes::Bytes;
use quorate_types::{ClusterId, Digest, ReplicaId};

/// The unit in which a disk writes or does not.
pub(crate) const SECTOR_BYTES: usize = 512;
/// The format that is written and read.
pub(crate) const FORMAT: u16 = 1;
/// Bytes before the records of a group.
pub(crate) const GROUP_HEADER_BYTES: usize = 48;
/// Bytes before the content of a record.
pub(crate) const RECORD_HEADER_BYTES: usize = 16;
/// The last byte of every group and group header: not zero, nor one flipped bit away from it.
const MARK: u8 = 0xa5;
const SEGMENT_MAGIC: [u8; 8] = *b"qJournal";
const GROUP_MAGIC: [u8; 4] = *b"qJg1";

/// What the first sector of a segment says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    pub identity: Identity,
    pub index: u64,
    pub bytes: u64,
}

/// Why a first sector is no header.
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
        sector[16..48].copy_from_slice(&self.identity.cluster.0.0);
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
        let cluster = ClusterId(Digest(sector[16..48].try_into().expect("32 bytes")));
        let identity = Identity { cluster, replica: ReplicaId(u16_at(sector, 10)) };
        Ok(SegmentHeader { identity, index: u64_at(sector, 48), bytes: u64_at(sector, 56) })
    }
}

/// A record on its way to the disk, in pieces that are shared with whoever else has them.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub id: u64,
    pub pieces: Vec<Bytes>,
    /// Of all pieces together.
    pub bytes: usize,
}

impl Entry {
    pub fn new(id: u64, pieces: Vec<Bytes>) -> Entry {
        let bytes = pieces.iter().map(Bytes::len).sum();
        Entry { id, pieces, bytes }
    }
}

/// What a group says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupHeader {
    /// One more than that of the group before, over all segments.
    pub sequence: u64,
    /// The index of the segment it stands in.
    pub index: u64,
    /// All of it, padding included.
    pub bytes: u32,
    pub records: u32,
    pub blank_sectors: u32,
}

impl GroupHeader {
    fn encode(&self) -> [u8; GROUP_HEADER_BYTES] {
        let mut header = [0; GROUP_HEADER_BYTES];
        header[..4].copy_from_slice(&GROUP_MAGIC);
        header[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        header[16..24].copy_from_slice(&self.index.to_le_bytes());
        header[24..28].copy_from_slice(&self.bytes.to_le_bytes());
        header[28..32].copy_from_slice(&self.records.to_le_bytes());
        header[32..36].copy_from_slice(&self.blank_sectors.to_le_bytes());
        header[GROUP_HEADER_BYTES - 1] = MARK;
        let checksum = crc32fast::hash(&header[8..]);
        header[4..8].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    /// The header at the beginning of `bytes`, if one stands there unharmed.
    pub fn decode(bytes: &[u8]) -> Option<GroupHeader> {
        let header = bytes.get(..GROUP_HEADER_BYTES)?;
        if header[..4] != GROUP_MAGIC || u32_at(header, 4) != crc32fast::hash(&header[8..]) {
            return None;
        }
        Some(GroupHeader {
            sequence: u64_at(header, 8),
            index: u64_at(header, 16),
            bytes: u32_at(header, 24),
            records: u32_at(header, 28),
            blank_sectors: u32_at(header, 32),
        })
    }

    /// Whether the last byte of a header was written at all.
    pub fn ends(bytes: &[u8]) -> bool {
        bytes[GROUP_HEADER_BYTES - 1] != 0
    }
}

/// Bytes of a group with `content` bytes of records, their headers included.
pub(crate) fn group_bytes(content: usize) -> usize {
    (GROUP_HEADER_BYTES + content + 1).next_multiple_of(SECTOR_BYTES)
}

/// Writes a group into `buffer`, whose former content is lost.
pub(crate) fn encode_group(sequence: u64, index: u64, records: &[Entry], buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.resize(GROUP_HEADER_BYTES, 0);
    for Entry { id, pieces, bytes } in records {
        let length = u32::try_from(*bytes).expect("a segment, and so a record, is below 4 GiB");
        let pieces = || pieces.iter().map(|piece| &piece[..]);
        buffer.extend_from_slice(&id.to_le_bytes());
        buffer.extend_from_slice(&length.to_le_bytes());
        buffer.extend_from_slice(&record_checksum(*id, length, pieces()).to_le_bytes());
        pieces().for_each(|piece| buffer.extend_from_slice(piece));
    }
    buffer.resize(group_bytes(buffer.len() - GROUP_HEADER_BYTES), 0);
    *buffer.last_mut().expect("a group has at least one sector") = MARK;
    let header = GroupHeader {
        sequence,
        index,
        bytes: u32::try_from(buffer.len()).expect("a segment, and so a group, is below 4 GiB"),
        records: u32::try_from(records.len()).expect("fewer records than bytes"),
        blank_sectors: blank_sectors(buffer),
    };
    buffer[..GROUP_HEADER_BYTES].copy_from_slice(&header.encode());
}

/// How many sectors of a group are all zero. The first never counts: it holds the header.
pub(crate) fn blank_sectors(group: &[u8]) -> u32 {
    let blank = group.chunks(SECTOR_BYTES).skip(1).filter(|sector| is_blank(sector)).count();
    u32::try_from(blank).expect("fewer sectors than bytes")
}

pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    // Folding blocks without an early exit inside them lets the compiler use wide registers.
    bytes.chunks(64).all(|block| block.iter().fold(0, |bits, byte| bits | byte) == 0)
}

fn record_checksum<'a>(id: u64, length: u32, pieces: impl Iterator<Item = &'a [u8]>) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&id.to_le_bytes());
    checksum.update(&length.to_le_bytes());
    pieces.for_each(|piece| checksum.update(piece));
    checksum.finalize()
}

/// A record in a group whose bytes are `group`, at `at`: its id and where its content lies.
pub(crate) fn decode_record(group: &[u8], at: usize) -> Result<(u64, std::ops::Range<usize>), &'static str> {
    let header = group.get(at..at + RECORD_HEADER_BYTES).ok_or("a record begins beyond its group")?;
    let content = at + RECORD_HEADER_BYTES..(at + RECORD_HEADER_BYTES).saturating_add(u32_at(header, 8) as usize);
    let bytes = group.get(content.clone()).ok_or("a record's length reaches beyond its group")?;
    let id = u64_at(header, 0);
    if u32_at(header, 12) != record_checksum(id, bytes.len() as u32, std::iter::once(bytes)) {
        return Err("a record's checksum does not fit it");
    }
    Ok((id, content))
}

/// Whether what follows the records of a group is what is always written there.
pub(crate) fn is_padding(bytes: &[u8]) -> bool {
    bytes.split_last().is_some_and(|(last, rest)| *last == MARK && is_blank(rest))
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
