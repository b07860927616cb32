//! Packets that overtook others, held back for a moment.
//!
//! The library's sender takes a packet for lost after three acknowledgements that report it missing, and then halves
//! its congestion window. A few packets sent within the jitter of a path are enough for that. On a long path the window
//! never recovers, because it grows by one packet per round trip. So the receiving end puts packets in order before the
//! library sees them, and waits for an earlier one as long as QUIC does (RFC 9002, section 6.1.2), up to a limit.

use super::immediate::{CHUNK_HEADER_BYTES, KIND_DATA, chunks};
use super::observer::{is_after, number_at};
use bytes::Bytes;
use quorate_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A packet waits for earlier ones for 1/N of the round-trip time.
const ROUND_TRIP_SHARE: u32 = 8;
/// The same before the first measurement, and the shortest wait: on shorter paths a reduced window recovers within
/// milliseconds, and timers of drivers are no more precise.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// Longest wait. After a loss the following acknowledgements are late by as much, so it must be short beside the
/// margins of retransmission timeouts.
const MAX_WAIT: Duration = Duration::from_millis(4);
/// Maximum number of held packets: more than arrive within [`MAX_WAIT`] at a gigabit per second.
const MAX_HELD: usize = 512;

/// A held packet, with its first and last TSN, and the time until which it waits.
struct Held {
    first: u32,
    last: u32,
    until: Time,
    packet: Bytes,
}

/// Packets of one direction, put in order.
pub struct Reordering {
    /// The TSN after the highest one passed on.
    next: u32,
    /// In the order of their first TSNs.
    held: VecDeque<Held>,
}

impl Reordering {
    /// Starts before the packet with the TSN `next`.
    pub fn new(next: u32) -> Reordering {
        Reordering { next, held: VecDeque::new() }
    }

    /// Takes a received packet. Returns the packets to pass on now, in order.
    pub fn take(&mut self, now: Time, packet: Bytes, round_trip: Option<Duration>) -> Vec<Bytes> {
        let wait = round_trip.map_or(MIN_WAIT, |trip| (trip / ROUND_TRIP_SHARE).min(MAX_WAIT));
        let Some((first, last)) = numbers(&packet) else { return vec![packet] };
        if wait < MIN_WAIT || !is_after(first, self.next) {
            self.pass(last);
            let mut ready = vec![packet];
            self.release(now, &mut ready);
            return ready;
        }
        let behind = self.held.iter().rposition(|held| !is_after(held.first, first)).map_or(0, |at| at + 1);
        self.held.insert(behind, Held { first, last, until: now + wait, packet });
        let mut ready = Vec::new();
        if self.held.len() > MAX_HELD {
            self.held.iter_mut().for_each(|held| held.until = now);
            self.release(now, &mut ready);
        }
        ready
    }

    /// Returns the packets that have waited long enough, and those before them, in order.
    pub fn expired(&mut self, now: Time) -> Vec<Bytes> {
        let mut ready = Vec::new();
        self.release(now, &mut ready);
        ready
    }

    /// Returns when a packet has waited long enough.
    pub fn due(&self) -> Option<Time> {
        self.held.iter().map(|held| held.until).min()
    }

    fn pass(&mut self, last: u32) {
        if !is_after(self.next, last) {
            self.next = last.wrapping_add(1);
        }
    }

    /// Appends the held packets that follow without a gap, or up to the last one whose wait is over.
    fn release(&mut self, now: Time, ready: &mut Vec<Bytes>) {
        let mut expired = self.held.iter().rposition(|held| held.until <= now).map_or(0, |at| at + 1);
        while let Some(front) = self.held.front()
            && (expired > 0 || !is_after(front.first, self.next))
        {
            expired = expired.saturating_sub(1);
            let held = self.held.pop_front().expect("there is a first one");
            self.pass(held.last);
            ready.push(held.packet);
        }
    }
}

/// Returns the first and the last TSN of a packet; `None` if it has no data.
fn numbers(packet: &[u8]) -> Option<(u32, u32)> {
    let data = chunks(packet).filter(|(kind, _)| *kind == KIND_DATA);
    let mut numbers = data.filter_map(|(_, at)| number_at(packet, at + CHUNK_HEADER_BYTES));
    let first = numbers.next()?;
    Some(numbers.fold((first, first), |(first, last), number| {
        (if is_after(first, number) { number } else { first }, if is_after(number, last) { number } else { last })
    }))
}
