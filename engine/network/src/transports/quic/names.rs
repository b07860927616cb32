//! Connection IDs in packets, which identify their connection (RFC 9000, section 17).

use super::TAG_BYTES;

/// Header bit of a handshake packet (RFC 9000, section 17.2).
const LONG_HEADER: u8 = 0x80;
/// Offsets of the connection ID in packets: after the first byte, or after the first byte, the version and the ID's
/// length.
const SHORT_NAME_AT: usize = 1;
const LONG_NAME_LENGTH_AT: usize = 5;
/// Maximum length of a connection ID, in bytes.
const MAX_NAME_BYTES: usize = 20;

/// Returns the tag of the connection to which a short packet belongs.
pub fn short_tag(packet: &[u8]) -> Option<[u8; TAG_BYTES]> {
    packet.get(SHORT_NAME_AT..SHORT_NAME_AT + TAG_BYTES)?.try_into().ok()
}

/// Returns the number by which packets identify an end with this tag.
pub fn name_of_tag(tag: [u8; TAG_BYTES]) -> u64 {
    u32::from_le_bytes(tag).into()
}

/// Returns whether a packet belongs to an established connection.
pub fn is_short(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & LONG_HEADER == 0)
}

/// Returns the connection IDs of a handshake packet: destination and source.
pub fn long_names(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let (to, rest) = name_at(packet.get(LONG_NAME_LENGTH_AT..)?)?;
    Some((to, name_at(rest)?.0))
}

fn name_at(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let length = usize::from(*length);
    if length > MAX_NAME_BYTES { None } else { rest.split_at_checked(length) }
}
