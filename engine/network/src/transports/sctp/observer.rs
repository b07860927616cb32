//! Retransmissions and round trips, which the SCTP library does not report. Both are derived from the chunks sent and
//! received.

use super::immediate::{CHUNK_HEADER_BYTES, KIND_DATA, chunks};
use crate::transports::retransmission::{Bounds, RoundTrips};
use quorate_types::Time;
use std::time::Duration;

/// Type of the selective acknowledgement chunk (RFC 9260, section 3.3.4).
const KIND_SACK: u8 = 3;
/// Offsets after the chunk header: of the cumulative TSN, and of the number of gap blocks.
const CUMULATIVE_AT: usize = 0;
const BLOCK_COUNT_AT: usize = 8;
const BLOCKS_AT: usize = 12;
const BLOCK_BYTES: usize = 4;

/// Observes the packets that one end sends and receives.
pub struct Observer {
    /// Highest TSN sent.
    highest: Option<u32>,
    /// Packets that contain a retransmitted chunk.
    pub repeated: u64,
    /// The TSN whose acknowledgement is being timed, and when it was sent.
    timed: Option<(u32, Time)>,
    trips: RoundTrips,
}

impl Observer {
    pub fn new(bounds: Bounds) -> Observer {
        Observer { highest: None, repeated: 0, timed: None, trips: RoundTrips::new(bounds) }
    }

    /// Returns the smoothed round-trip time; `None` before the first measurement.
    pub fn round_trip(&self) -> Option<Duration> {
        self.trips.smoothed()
    }

    /// Records an outgoing packet.
    pub fn sent(&mut self, now: Time, packet: &[u8]) {
        let mut is_repeated = false;
        let data = chunks(packet).filter(|(kind, _)| *kind == KIND_DATA);
        for number in data.filter_map(|(_, at)| number_at(packet, at + CHUNK_HEADER_BYTES)) {
            if self.highest.is_some_and(|highest| !is_after(number, highest)) {
                is_repeated = true;
                // An acknowledgement would not tell which of the two arrived (Karn's algorithm).
                self.timed = self.timed.filter(|(timed, _)| *timed != number);
            } else {
                self.highest = Some(number);
                self.timed.get_or_insert((number, now));
            }
        }
        self.repeated += u64::from(is_repeated);
    }

    pub fn received(&mut self, now: Time, packet: &[u8]) {
        let Some((number, sent)) = self.timed else { return };
        let mut acknowledgements = chunks(packet).filter(|(kind, _)| *kind == KIND_SACK);
        if acknowledgements.any(|(_, at)| acknowledges(packet, at + CHUNK_HEADER_BYTES, number)) {
            self.trips.measured(now.since(sent));
            self.timed = None;
        }
    }
}

/// Returns whether the acknowledgement at this offset covers a TSN.
fn acknowledges(packet: &[u8], at: usize, number: u32) -> bool {
    let Some(cumulative) = number_at(packet, at + CUMULATIVE_AT) else { return false };
    if !is_after(number, cumulative) {
        return true;
    }
    let blocks = half_at(packet, at + BLOCK_COUNT_AT).unwrap_or(0);
    let distance = number.wrapping_sub(cumulative);
    let mut ranges = (0..usize::from(blocks)).map_while(|block| {
        let block_at = at + BLOCKS_AT + block * BLOCK_BYTES;
        Some(u32::from(half_at(packet, block_at)?)..=u32::from(half_at(packet, block_at + 2)?))
    });
    ranges.any(|range| range.contains(&distance))
}

/// Returns whether one TSN follows another, in serial number arithmetic (RFC 1982).
pub fn is_after(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() > 0
}

pub fn number_at(packet: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(packet.get(at..at + 4)?.try_into().expect("four bytes")))
}

fn half_at(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().expect("two bytes")))
}
