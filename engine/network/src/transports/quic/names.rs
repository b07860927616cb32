//! Connection IDs in packets, which say whose they are (RFC 9000, section 17).

use super::TAG_BYTES;

/// First bit of a packet of a handshake (RFC 9000, section 17.2).
const LONG_HEADER: u8 = 0x80;
/// Places of a connection's name in packets: after the first byte, or after that, the version and the name's length.
const SHORT_NAME_AT: usize = 1;
const LONG_NAME_LENGTH_AT: usize = 5;
/// Longest name in bytes.
const MAX_NAME_BYTES: usize = 20;

/// Returns the tag of the connection to which a short packet belongs.
pub fn short_tag(packet: &[u8]) -> Option<[u8; TAG_BYTES]> {
    packet.get(SHORT_NAME_AT..SHORT_NAME_AT + TAG_BYTES)?.try_into().ok()
}

/// Returns the number by which packets name an end with this tag.
pub fn name_of_tag(tag: [u8; TAG_BYTES]) -> u64 {
    u32::from_le_bytes(tag).into()
}

/// Returns whether a packet is one of an established connection.
pub fn is_short(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & LONG_HEADER == 0)
}

/// Returns the connection IDs of a packet of a handshake: the one that it is addressed to, and its sender's.
pub fn long_names(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let (to, rest) = name_at(packet.get(LONG_NAME_LENGTH_AT..)?)?;
    Some((to, name_at(rest)?.0))
}

fn name_at(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let length = usize::from(*length);
    if length > MAX_NAME_BYTES { None } else { rest.split_at_checked(length) }
}
