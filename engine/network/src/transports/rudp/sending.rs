//! The sending half: unacknowledged packets and their retransmission.

use super::pace::{Departure, Pace};
use crate::transports::retransmission::{RetransmissionConfig, RoundTrips};
use bytes::Bytes;
use quorate_types::Time;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Maximum bytes retransmitted per timeout, if they are more than one packet. They suffice to show the remote the gap,
/// and it sends a NACK for the rest. If the remote was only busy, they were superfluous.
const MAX_AGAIN_BYTES: usize = 16 << 10;

struct Sent {
    /// The packet without its header; empty once it was acknowledged.
    pieces: Bytes,
    bytes: usize,
    at: Time,
    is_acknowledged: bool,
    /// Whether it was sent more than once, so that its round trip is ambiguous (Karn's algorithm).
    was_repeated: bool,
    left: Option<Departure>,
}

/// Packets in flight.
pub struct Sending {
    sent: VecDeque<Sent>,
    /// Number of the first entry of `sent`.
    first: u64,
    in_flight_bytes: usize,
    /// Numbers to retransmit now.
    again: BTreeSet<u64>,
    pub trips: RoundTrips,
    backoff: u32,
    timeout_at: Option<Time>,
    /// Time of the last received packet, or of the first one sent after a pause.
    heard_at: Time,
    window_bytes: usize,
    pub pace: Option<Pace>,
    pub repeated: u64,
    pub timeouts: u64,
}

impl Sending {
    pub fn new(config: &RetransmissionConfig) -> Sending {
        Sending {
            sent: VecDeque::new(),
            first: 0,
            in_flight_bytes: 0,
            again: BTreeSet::new(),
            trips: RoundTrips::new(config.bounds()),
            backoff: 0,
            timeout_at: None,
            heard_at: Time(0),
            window_bytes: config.window_bytes,
            pace: config.pacing.then(|| Pace::new(Time(0))),
            repeated: 0,
            timeouts: 0,
        }
    }

    /// Returns the unacknowledged bytes.
    pub fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }

    /// Returns the time of the next timeout.
    pub fn timeout_at(&self) -> Option<Time> {
        self.timeout_at
    }

    /// Records that the remote is alive.
    pub fn heard(&mut self, now: Time) {
        self.heard_at = now;
    }

    /// Returns how long the remote has been silent, if an answer is outstanding.
    pub fn silence(&self, now: Time) -> Option<Duration> {
        (self.in_flight_bytes > 0).then(|| now.since(self.heard_at))
    }

    /// Returns whether the window allows a new packet.
    pub fn has_room(&self) -> bool {
        let paced = self.pace.as_ref().map_or(usize::MAX, |pace| pace.in_flight(self.trips.smallest()));
        self.in_flight_bytes < self.window_bytes.min(paced)
    }

    /// Returns the number of the next new packet.
    pub fn next(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    /// Records a new packet, sent with the [next](Sending::next) number.
    pub fn depart(&mut self, now: Time, pieces: Bytes) {
        if self.in_flight_bytes == 0 {
            self.heard_at = now;
        }
        let bytes = pieces.len().max(1);
        let left = self.pace.as_mut().map(|pace| pace.departs(now, bytes));
        self.in_flight_bytes += bytes;
        self.sent.push_back(Sent { pieces, bytes, at: now, is_acknowledged: false, was_repeated: false, left });
        self.timeout_at.get_or_insert(now + self.trips.timeout(self.backoff));
    }

    /// Returns the next packet to retransmit, with its number.
    pub fn next_again(&mut self, now: Time) -> Option<(u64, Bytes)> {
        while let Some(number) = self.again.pop_first() {
            let Some(sent) = self.get_mut(number).filter(|sent| !sent.is_acknowledged) else { continue };
            (sent.at, sent.was_repeated) = (now, true);
            let (pieces, bytes) = (sent.pieces.clone(), sent.bytes);
            if let Some(pace) = &mut self.pace {
                pace.departs(now, bytes);
            }
            self.repeated += 1;
            return Some((number, pieces));
        }
        None
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Sent> {
        self.sent.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Handles an acknowledgement: all numbers below `missing`, and the `later` ones, were received. `latest` contains
    /// the low bits of the number received last: its round trip is measured. Returns false if it acknowledges a packet
    /// that was never sent.
    pub fn acknowledged(&mut self, now: Time, missing: u64, later: impl Iterator<Item = u64>, latest: u32) -> bool {
        let end = self.next();
        if missing > end {
            return false;
        }
        let latest = self.first + u64::from(latest.wrapping_sub(self.first as u32));
        let mut has_progress = false;
        for number in (self.first..missing).chain(later) {
            if number >= end {
                return false;
            }
            has_progress |= self.arrived(now, number, latest);
        }
        while self.first < missing && self.sent.pop_front().is_some() {
            self.first += 1;
        }
        if has_progress {
            self.set_timeout(now);
        }
        true
    }

    /// Records that a packet was acknowledged. Returns whether it was not acknowledged before.
    fn arrived(&mut self, now: Time, number: u64, latest: u64) -> bool {
        let Some(sent) = self.get_mut(number).filter(|sent| !sent.is_acknowledged) else { return false };
        sent.is_acknowledged = true;
        sent.pieces = Bytes::new();
        let (bytes, at, repeated, left) = (sent.bytes, sent.at, sent.was_repeated, sent.left);
        self.in_flight_bytes -= bytes;
        if number == latest && !repeated {
            self.trips.measured(now.since(at));
        }
        // While only retransmitted packets are acknowledged, no round trip is known, and the timeout may be too short
        // (Karn's algorithm).
        if !repeated {
            self.backoff = 0;
        }
        if let (Some(pace), Some(left)) = (&mut self.pace, left) {
            pace.arrived(now, bytes, left);
        }
        true
    }

    /// Sets the timeout from the oldest unacknowledged packet, but not earlier than from now.
    fn set_timeout(&mut self, now: Time) {
        let oldest = self.sent.iter().find(|sent| !sent.is_acknowledged).map(|sent| sent.at);
        self.timeout_at =
            oldest.map(|at| (at + self.trips.timeout(self.backoff)).max(now + self.trips.ack_delay() / 4));
    }

    /// Handles a NACK: marks the named packets for retransmission, unless they were just retransmitted.
    pub fn asked_for(&mut self, now: Time, first: u64, length: u16) {
        let patience = self.trips.smoothed().unwrap_or_default() / 2;
        let end = self.next();
        for number in first.max(self.first)..first.saturating_add(length.into()).min(end) {
            let Some(sent) = self.get_mut(number) else { continue };
            let is_on_its_way = sent.was_repeated && now.since(sent.at) < patience;
            if !sent.is_acknowledged && !is_on_its_way {
                self.again.insert(number);
            }
        }
    }

    /// Marks the packets that have waited longer than the timeout for retransmission, if it has expired.
    pub fn on_timer(&mut self, now: Time) {
        if self.timeout_at.is_none_or(|at| at > now) {
            return;
        }
        let timeout = self.trips.timeout(self.backoff);
        let late = self.sent.iter().zip(self.first..).filter(|(sent, _)| !sent.is_acknowledged);
        let mut bytes = 0;
        let late = late.filter(|(sent, _)| now.since(sent.at) >= timeout).take_while(|(sent, _)| {
            let fits = bytes == 0 || bytes + sent.bytes <= MAX_AGAIN_BYTES;
            bytes += sent.bytes;
            fits
        });
        let before = self.again.len();
        self.again.extend(late.map(|(_, number)| number));
        if self.again.len() > before {
            self.timeouts += 1;
            self.backoff += 1;
        }
        self.timeout_at = (self.in_flight_bytes > 0).then(|| now + self.trips.timeout(self.backoff));
    }
}
