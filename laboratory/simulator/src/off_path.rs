//! Off-path attacker who knows all addresses and can spoof any of them, but receives only packets to its own address,
//! and does not answer them.

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
/// Number of packets remembered for replays.
pub(crate) const MAX_SEEN: usize = 256;
/// Lengths of junk, in bytes. They include all fixed packet lengths.
const JUNK_BYTES: [usize; 8] = [1, 9, 15, 17, 18, 41, 300, 1_200];
/// First bytes of packets of the channels `plain` and `dtls` (`quorate_network::channels::envelope`).
const ENVELOPES: std::ops::RangeInclusive<u8> = 0x50..=0x59;
/// Minimum first byte of QUIC's long headers.
const LONG_HEADER: u8 = 0xc0;

choice!(
    /// Packets of an off-path sender.
    Forgery, "kind of packets from off the path",
    /// First packets of connections, and handshake packets with invented tokens.
    Handshakes = "handshakes",
    /// Random bytes, half of them with the first byte of a packet of `plain` and `dtls`.
    Junk = "junk",
    /// Copies of delivered packets between honest endpoints, with a different source address.
    Replays = "replays",
);

/// Packet between two honest endpoints, with its arrival time.
#[derive(Clone)]
pub(crate) struct Seen {
    pub arrives: Time,
    pub from: usize,
    pub to: usize,
    pub packet: Bytes,
}

/// Returns an address outside the cluster (TEST-NET-2, RFC 5737).
pub(crate) fn stranger(dice: &mut Random) -> SocketAddr {
    ([198, 51, 100, dice.below(256) as u8], 1_024 + dice.below(60_000) as u16).into()
}

pub(crate) fn junk(dice: &mut Random) -> Bytes {
    let mut packet = vec![0; JUNK_BYTES[dice.below(JUNK_BYTES.len() as u64) as usize]];
    scramble(&mut packet, dice);
    if dice.below(2) == 0 {
        packet[0] = ENVELOPES.start() + dice.below(ENVELOPES.len() as u64) as u8;
    }
    packet.into()
}

/// Returns one of these first packets, or an imitation of a later handshake packet.
pub(crate) fn handshake(firsts: &[Bytes], dice: &mut Random) -> Bytes {
    let first = &firsts[dice.below(firsts.len() as u64) as usize];
    if dice.below(2) == 0 {
        return first.clone();
    }
    let mut packet = first.to_vec();
    // The tokens, or the other end's connection ID after the version and the length.
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
