//! The immediate-acknowledgement bit (RFC 7053), set in a packet that the library has built.

/// Length of the common header, in bytes: ports, tag and checksum.
const HEADER_BYTES: usize = 12;
/// Offset of the checksum in the header.
const CHECKSUM: std::ops::Range<usize> = 8..12;
/// Length of a chunk header, in bytes: type, flags and length.
pub const CHUNK_HEADER_BYTES: usize = 4;
pub const KIND_DATA: u8 = 0;
const FLAG_IMMEDIATE: u8 = 8;
/// The polynomial of CRC32c (RFC 9260, appendix A), bit-reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Checksums of all byte values at eight distances from the end.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        byte = 0;
        while byte < 256 {
            let before: u32 = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// Returns the CRC32c of some bytes, computed eight bytes at a time.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    let (eights, rest) = bytes.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight) ^ u64::from(crc);
        crc = (0..8).fold(0, |sum, at| sum ^ TABLES[7 - at][(word >> (8 * at) & 0xff) as usize]);
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][((crc ^ u32::from(*byte)) & 0xff) as usize];
    }
    !crc
}

/// Returns the type and offset of each chunk of a packet.
pub fn chunks(packet: &[u8]) -> impl Iterator<Item = (u8, usize)> {
    let mut at = HEADER_BYTES;
    std::iter::from_fn(move || {
        let Some([kind, _, high, low]) = packet.get(at..at + CHUNK_HEADER_BYTES) else { return None };
        let (place, length) = (at, usize::from(u16::from_be_bytes([*high, *low])));
        at += length.max(CHUNK_HEADER_BYTES).next_multiple_of(4);
        Some((*kind, place))
    })
}

/// Returns whether a packet has a data chunk.
pub fn has_data(packet: &[u8]) -> bool {
    chunks(packet).any(|(kind, _)| kind == KIND_DATA)
}

/// Sets the bit in the last data chunk, and updates the checksum. Returns false if there is no data chunk.
pub fn ask(packet: &mut [u8]) -> bool {
    let last = chunks(packet).filter(|(kind, _)| *kind == KIND_DATA).last();
    let Some((_, place)) = last else { return false };
    packet[place + 1] |= FLAG_IMMEDIATE;
    packet[CHECKSUM].fill(0);
    let sum = crc32c(packet);
    packet[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    true
}
