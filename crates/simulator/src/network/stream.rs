//! Reliable stream over lossy links, with the retransmission of TCP.
//!
//! A message travels in segments. The receiver acknowledges each arrival with the first missing segment, and delivers
//! messages in order (head-of-line blocking). The sender retransmits the first unacknowledged segment when its timer
//! expires (RFC 6298, with Karn's rule) and after three duplicate acknowledgements (RFC 5681). During recovery, each
//! partial acknowledgement reveals the next gap (RFC 6582). There is no congestion window.

use quorate_types::Time;
use std::collections::{BTreeSet, VecDeque};

/// Number of duplicate acknowledgements that indicate a loss (RFC 5681, 3.2).
const DUPLICATES: u32 = 3;

/// Retransmission timeouts in nanoseconds, and whether duplicate acknowledgements retransmit.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Timeout before the first measured round trip.
    pub initial_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub fast_retransmit: bool,
}

/// Segment of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Position in the stream, from 0.
    pub number: u64,
    /// Size without headers.
    pub bytes: u32,
}

/// Action that a stream requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Todo {
    Send(Segment),
    /// Call [`Stream::on_timer`] at this time.
    Wake(Time),
}

struct Sent {
    bytes: u32,
    at: Time,
    /// Sent more than once, so its round trip must not be measured (Karn).
    again: bool,
}

/// Both ends of the stream from one endpoint to another. They share no state except through packets.
pub struct Stream<L> {
    options: StreamOptions,
    /// Sender: unacknowledged segments.
    unacknowledged: VecDeque<Sent>,
    first_unacknowledged: u64,
    next: u64,
    bytes: u64,
    smoothed_ns: Option<u64>,
    variation_ns: u64,
    timeout_ns: u64,
    deadline: Option<Time>,
    wake: Option<Time>,
    duplicates: u32,
    /// Recovery ends once all segments before this one are acknowledged.
    recover: Option<u64>,
    /// Receiver: the first missing segment.
    expected: u64,
    early: BTreeSet<u64>,
    /// Messages with the number of their last segment.
    letters: VecDeque<(u64, L)>,
    /// Number of segments sent again.
    pub retransmissions: u64,
}

impl<L> Stream<L> {
    pub fn new(options: StreamOptions) -> Stream<L> {
        Stream {
            timeout_ns: options.initial_ns,
            options,
            unacknowledged: VecDeque::new(),
            first_unacknowledged: 0,
            next: 0,
            bytes: 0,
            smoothed_ns: None,
            variation_ns: 0,
            deadline: None,
            wake: None,
            duplicates: 0,
            recover: None,
            expected: 0,
            early: BTreeSet::new(),
            letters: VecDeque::new(),
            retransmissions: 0,
        }
    }

    pub fn unacknowledged_bytes(&self) -> u64 {
        self.bytes
    }

    /// Sends a message of `bytes` in segments of at most `room`.
    pub fn send(&mut self, now: Time, letter: L, bytes: usize, room: usize, todo: &mut Vec<Todo>) {
        let mut left = bytes.max(1);
        while left > 0 {
            let part = left.min(room) as u32;
            left -= part as usize;
            todo.push(Todo::Send(Segment { number: self.next, bytes: part }));
            self.unacknowledged.push_back(Sent { bytes: part, at: now, again: false });
            self.bytes += u64::from(part);
            self.next += 1;
        }
        self.letters.push_back((self.next - 1, letter));
        if self.deadline.is_none() {
            self.restart(now, todo);
        }
    }

    /// Handles a segment and appends the messages it completes. Returns the first missing segment, for the
    /// acknowledgement.
    pub fn on_segment(&mut self, number: u64, letters: &mut Vec<L>) -> u64 {
        if number == self.expected {
            self.expected += 1;
            while self.early.remove(&self.expected) {
                self.expected += 1;
            }
        } else if number > self.expected {
            self.early.insert(number);
        }
        while self.letters.front().is_some_and(|(last, _)| *last < self.expected) {
            letters.extend(self.letters.pop_front().map(|(_, letter)| letter));
        }
        self.expected
    }

    /// Handles an acknowledgement of all segments before `upto`.
    pub fn on_acknowledged(&mut self, now: Time, upto: u64, todo: &mut Vec<Todo>) {
        if upto > self.first_unacknowledged {
            self.advance(now, upto, todo);
        } else if upto == self.first_unacknowledged && !self.unacknowledged.is_empty() {
            self.duplicates += 1;
            if self.duplicates == DUPLICATES && self.options.fast_retransmit && self.recover.is_none() {
                self.recover = Some(self.next);
                self.retransmit(now, todo);
            }
        }
    }

    fn advance(&mut self, now: Time, upto: u64, todo: &mut Vec<Todo>) {
        let mut sample = None;
        while self.first_unacknowledged < upto {
            let sent = self.unacknowledged.pop_front().expect("only what was sent is acknowledged");
            self.bytes -= u64::from(sent.bytes);
            self.first_unacknowledged += 1;
            sample = (!sent.again).then_some(sent.at);
        }
        if let Some(at) = sample {
            self.on_round_trip(now.since(at).as_nanos() as u64);
        }
        self.duplicates = 0;
        match self.recover {
            Some(recover) if upto < recover => self.retransmit(now, todo),
            _ => self.recover = None,
        }
        if self.unacknowledged.is_empty() {
            self.deadline = None;
        } else {
            self.restart(now, todo);
        }
    }

    /// Updates the timeout: RFC 6298, 2.2 and 2.3, with alpha 1/8, beta 1/4 and K 4.
    fn on_round_trip(&mut self, round_trip_ns: u64) {
        match self.smoothed_ns {
            None => {
                self.smoothed_ns = Some(round_trip_ns);
                self.variation_ns = round_trip_ns / 2;
            }
            Some(smoothed) => {
                self.variation_ns = (3 * self.variation_ns + smoothed.abs_diff(round_trip_ns)) / 4;
                self.smoothed_ns = Some((7 * smoothed + round_trip_ns) / 8);
            }
        }
        let timeout = self.smoothed_ns.unwrap_or(0) + 4 * self.variation_ns;
        self.timeout_ns = timeout.clamp(self.options.min_ns, self.options.max_ns);
    }

    /// Retransmits if the timer has expired.
    pub fn on_timer(&mut self, now: Time, todo: &mut Vec<Todo>) {
        self.wake = None;
        let Some(deadline) = self.deadline else { return };
        if deadline > now {
            return self.wake_at(deadline, todo);
        }
        self.timeout_ns = (self.timeout_ns * 2).min(self.options.max_ns);
        self.recover = Some(self.next);
        self.duplicates = 0;
        self.retransmit(now, todo);
        self.restart(now, todo);
    }

    fn retransmit(&mut self, now: Time, todo: &mut Vec<Todo>) {
        let number = self.first_unacknowledged;
        if let Some(sent) = self.unacknowledged.front_mut() {
            (sent.at, sent.again) = (now, true);
            self.retransmissions += 1;
            todo.push(Todo::Send(Segment { number, bytes: sent.bytes }));
        }
    }

    fn restart(&mut self, now: Time, todo: &mut Vec<Todo>) {
        let deadline = Time(now.0 + self.timeout_ns);
        self.deadline = Some(deadline);
        self.wake_at(deadline, todo);
    }

    fn wake_at(&mut self, at: Time, todo: &mut Vec<Todo>) {
        if self.wake.is_none_or(|earlier| earlier > at) {
            self.wake = Some(at);
            todo.push(Todo::Wake(at));
        }
    }
}
