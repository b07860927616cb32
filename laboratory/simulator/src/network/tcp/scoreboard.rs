//! Unacknowledged segments, and time-based detection of their loss (RFC 8985, RACK).

use quorate_types::Time;
use std::collections::VecDeque;
use std::ops::Range;

/// Number of later segments whose delivery marks an earlier one as lost immediately.
const OVERTAKEN: u32 = 3;

/// A segment in flight.
#[derive(Clone, Debug)]
pub struct Sent {
    pub begin: u64,
    pub bytes: u32,
    /// Time of its last transmission.
    pub at: Time,
    /// Sequence number of the transmission, since several may share a time.
    turn: u64,
    /// Whether it was transmitted more than once.
    pub again: bool,
    /// Whether the other end has it, but lacks an earlier one.
    is_held: bool,
    is_lost: bool,
    /// Whether it was lost and has been retransmitted.
    is_repeated: bool,
}

impl Sent {
    pub fn new(begin: u64, bytes: u32, at: Time) -> Sent {
        Sent { begin, bytes, at, turn: 0, again: false, is_held: false, is_lost: false, is_repeated: false }
    }

    fn end(&self) -> u64 {
        self.begin + u64::from(self.bytes)
    }
}

/// Information in an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub struct News {
    /// Newly delivered segments.
    pub delivered: u32,
    /// Segments that are now acknowledged cumulatively.
    pub advanced: u32,
    /// Send time of the first acknowledged segment, unless one of them was retransmitted.
    pub measurable: Option<Time>,
    /// Whether a retransmitted segment was acknowledged.
    pub after_repetition: bool,
}

/// Unacknowledged segments in the order of their position.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    sent: VecDeque<Sent>,
    held: u32,
    lost: u32,
    repeated: u32,
    /// Number of transmissions so far, which numbers them.
    turns: u64,
    /// The most recently sent of the delivered segments: its transmission number, and its round trip in nanoseconds.
    latest: Option<(u64, u64)>,
}

impl Scoreboard {
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    pub fn len(&self) -> u32 {
        self.sent.len() as u32
    }

    /// Returns whether the other end holds segments beyond a gap.
    pub fn has_gaps(&self) -> bool {
        self.held > 0
    }

    pub fn in_flight(&self) -> u32 {
        self.len() - self.held - self.lost + self.repeated
    }

    /// Returns whether lost segments await retransmission.
    pub fn has_losses(&self) -> bool {
        self.lost > self.repeated
    }

    /// Returns the time of the first segment's last transmission.
    pub fn first_at(&self) -> Option<Time> {
        self.sent.front().map(|sent| sent.at)
    }

    pub fn push(&mut self, sent: Sent) {
        self.turns += 1;
        self.sent.push_back(Sent { turn: self.turns, ..sent });
    }

    /// Returns the first lost segment, marked as retransmitted, and whether it is the first of all segments.
    pub fn repeat(&mut self, now: Time) -> Option<(Sent, bool)> {
        if !self.has_losses() {
            return None;
        }
        let at = self.sent.iter().position(|sent| sent.is_lost && !sent.is_repeated)?;
        let sent = &mut self.sent[at];
        self.turns += 1;
        (sent.at, sent.turn, sent.again, sent.is_repeated) = (now, self.turns, true, true);
        self.repeated += 1;
        Some((sent.clone(), at == 0))
    }

    /// Returns the last segment for a probe, marked as retransmitted.
    pub fn probe(&mut self, now: Time) -> Option<Sent> {
        let last = self.sent.back_mut()?;
        self.turns += 1;
        (last.at, last.turn, last.again) = (now, self.turns, true);
        Some(last.clone())
    }

    /// Removes the segments acknowledged before `upto`, and marks those that the other end holds beyond it.
    pub fn acknowledge(&mut self, now: Time, upto: u64, holds: &[Range<u64>], least_trip: u64) -> News {
        let mut news = News::default();
        while self.sent.front().is_some_and(|sent| sent.end() <= upto) {
            let sent = self.sent.pop_front().expect("there is a first one");
            news.advanced += 1;
            self.held -= u32::from(sent.is_held);
            self.lost -= u32::from(sent.is_lost);
            self.repeated -= u32::from(sent.is_repeated);
            if !sent.is_held {
                news.delivered += 1;
                self.arrived(now, &sent, least_trip);
            }
            if sent.again {
                news.after_repetition = true;
            } else if !sent.is_held {
                news.measurable = news.measurable.or(Some(sent.at));
            }
        }
        if news.after_repetition {
            news.measurable = None;
        }
        for held in holds {
            self.hold(now, held, least_trip, &mut news);
        }
        news
    }

    fn hold(&mut self, now: Time, held: &Range<u64>, least_trip: u64, news: &mut News) {
        let from = self.sent.partition_point(|sent| sent.begin < held.start);
        for at in from..self.sent.len() {
            if self.sent[at].end() > held.end {
                return;
            }
            if self.sent[at].is_held {
                continue;
            }
            let sent = &mut self.sent[at];
            self.lost -= u32::from(sent.is_lost);
            self.repeated -= u32::from(sent.is_repeated);
            (sent.is_held, sent.is_lost, sent.is_repeated) = (true, false, false);
            self.held += 1;
            news.delivered += 1;
            let sent = sent.clone();
            self.arrived(now, &sent, least_trip);
        }
    }

    /// Records the delivery of a segment. After a retransmission, a round trip that is too short belongs to the first
    /// copy.
    fn arrived(&mut self, now: Time, sent: &Sent, least_trip: u64) {
        let trip = now.0 - sent.at.0;
        if sent.again && trip < least_trip {
            return;
        }
        if self.latest.is_none_or(|(turn, _)| sent.turn > turn) {
            self.latest = Some((sent.turn, trip));
        }
    }

    /// Marks segments as lost that later ones have overtaken by more than the reordering window. Returns the number of
    /// lost segments, and the time until the next check.
    pub fn find_losses(&mut self, now: Time, reordering: u64, in_recovery: bool) -> (u32, Option<u64>) {
        let Some((latest, trip)) = self.latest else { return (0, None) };
        let window = if in_recovery || self.held >= OVERTAKEN { 0 } else { reordering };
        let (mut found, mut again) = (0, None);
        for sent in &mut self.sent {
            if sent.is_held || (sent.is_lost && !sent.is_repeated) || sent.turn > latest {
                continue;
            }
            let gone = now.0 - sent.at.0;
            if gone >= trip + window {
                self.repeated -= u32::from(sent.is_repeated);
                self.lost += u32::from(!sent.is_lost);
                (sent.is_lost, sent.is_repeated) = (true, false);
                found += 1;
            } else {
                again = again.max(Some(trip + window - gone));
            }
        }
        (found, again)
    }

    /// Marks all segments as lost after a timeout, except those sent less than a round trip ago.
    pub fn lose_all(&mut self, now: Time) {
        let trip = self.latest.map_or(0, |(_, trip)| trip);
        for (at, sent) in self.sent.iter_mut().enumerate() {
            if sent.is_held || (at > 0 && now.0 - sent.at.0 < trip) {
                continue;
            }
            self.repeated -= u32::from(sent.is_repeated);
            self.lost += u32::from(!sent.is_lost);
            (sent.is_lost, sent.is_repeated) = (true, false);
        }
    }
}
