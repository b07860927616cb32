//! Somebody off the path, who knows all addresses and sends packets in the name of any of them, but receives only what
//! is sent to an address of their own, and answers none of it.

use crate::links::Random;
use bytes::Bytes;
use quorate_types::{Time, choice};
use std::net::SocketAddr;

/// Default number of packets per second to each endpoint.
pub const PACKETS_PER_S: f64 = 10_000.0;
/// Maximum number of packets per second to each endpoint.
pub const MAX_PACKETS_PER_S: f64 = 1e6;
/// Number of first packets of connections to choose from.
pub(crate) const FIRST_PACKETS: usize = 32;
/// Number of packets to remember for replays.
pub(crate) const MAX_SEEN: usize = 256;
/// Lengths of junk, in bytes. All fixed packet lengths are among them.
const JUNK_BYTES: [usize; 8] = [1, 9, 15, 17, 18, 41, 300, 1_200];
/// First bytes of packets of the channels `plain` and `dtls` (`quorate_network::channels::envelope`).
const ENVELOPES: std::ops::RangeInclusive<u8> = 0x50..=0x59;
/// First byte of QUIC's long headers, at least.
const LONG_HEADER: u8 = 0xc0;

choice!(
    /// Packets of a sender off the path.
    Forgery, "kind of packets from off the path",
    /// First packets of connections, and handshake packets with invented tokens.
    Handshakes = "handshakes",
    /// Random bytes, half of them with the first byte of a packet of `plain` and `dtls`.
    Junk = "junk",
    /// Copies of packets between honest endpoints that have arrived, from another address than their sender's.
    Replays = "replays",
);

/// Packet between two honest endpoints, with the time of its arrival.
#[derive(Clone)]
pub(crate) struct Seen {
    pub arrives: Time,
    pub from: usize,
    pub to: usize,
    pub packet: Bytes,
}

/// Returns an address of nobody in the cluster (TEST-NET-2, RFC 5737).
pub(crate) fn stranger(dice: &mut Random) -> SocketAddr {
    ([198, 51, 100, dice.below(256) as u8], 1_024 + dice.below(60_000) as u16).into()
}

/// Returns junk.
pub(crate) fn junk(dice: &mut Random) -> Bytes {
    let mut packet = vec![0; JUNK_BYTES[dice.below(JUNK_BYTES.len() as u64) as usize]];
    scramble(&mut packet, dice);
    if dice.below(2) == 0 {
        packet[0] = ENVELOPES.start() + dice.below(ENVELOPES.len() as u64) as u8;
    }
    packet.into()
}

/// Returns one of these first packets, or one that looks like a later packet of a handshake.
pub(crate) fn handshake(firsts: &[Bytes], dice: &mut Random) -> Bytes {
    let first = &firsts[dice.below(firsts.len() as u64) as usize];
    if dice.below(2) == 0 {
        return first.clone();
    }
    let mut packet = first.to_vec();
    // The tokens, or the connection ID of the other end after the version and the length.
    let numbers = if packet[0] >= LONG_HEADER { 6..14 } else { 1..17 };
    if ENVELOPES.contains(&packet[0]) {
        packet[0] = ENVELOPES.start() + dice.below(ENVELOPES.len() as u64) as u8;
    }
    if let Some(numbers) = packet.get_mut(numbers) {
        scramble(numbers, dice);
    }
    packet.into()
}

fn scramble(bytes: &mut [u8], dice: &mut Random) {
    bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&dice.bits().to_le_bytes()[..part.len()]));
}
