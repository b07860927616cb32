//! One end of a connection: a sender, and a receiver whose acknowledgements are piggybacked on the sender's segments.

use super::receiver::Receiver;
use super::sender::Sender;
use super::{Segment, TcpCounts, TcpOptions, Todo};
use quorate_types::Time;

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct Endpoint {
    sender: Sender,
    receiver: Receiver,
    /// The earliest requested call of [`Endpoint::on_timer`].
    wake: Option<Time>,
    leaving: Vec<Segment>,
}

impl Endpoint {
    pub fn new(options: TcpOptions) -> Endpoint {
        Endpoint { sender: Sender::new(options), receiver: Receiver::new(options), wake: None, leaving: Vec::new() }
    }

    /// Returns the number of bytes written but not sent.
    pub fn unsent_bytes(&self) -> u64 {
        self.sender.unsent()
    }

    /// Returns the number of bytes written but not acknowledged.
    pub fn unacknowledged_bytes(&self) -> u64 {
        self.sender.unacknowledged()
    }

    /// Returns the position of the first missing byte.
    pub fn received(&self) -> u64 {
        self.receiver.expected
    }

    pub fn counts(&self) -> TcpCounts {
        self.sender.counts
    }

    /// Returns the smoothed round trip in nanoseconds; `None` before the first one.
    pub fn smoothed_round_trip_ns(&self) -> Option<u64> {
        self.sender.trips.smoothed()
    }

    /// Appends bytes to the stream, and returns its end. [`Endpoint::flush`] sends them.
    pub fn write(&mut self, bytes: u64) -> u64 {
        self.sender.write(bytes)
    }

    /// Sends written bytes.
    pub fn flush(&mut self, now: Time, out: &mut Vec<Todo>) {
        self.sender.transmit(now, &mut self.leaving);
        self.perform(now, out);
    }

    pub fn on_segment(&mut self, now: Time, segment: &Segment, out: &mut Vec<Todo>) {
        self.sender.on_acknowledged(now, segment, &mut self.leaving);
        if segment.bytes > 0 {
            let trips = &self.sender.trips;
            self.receiver.on_data(now, segment, trips.smoothed(), trips.timeout());
        }
        self.perform(now, out);
    }

    /// Performs the due actions. An early call does no harm.
    pub fn on_timer(&mut self, now: Time, out: &mut Vec<Todo>) {
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
        }
        self.receiver.on_timer(now, self.sender.trips.timeout());
        self.sender.on_timer(now, &mut self.leaving);
        self.perform(now, out);
    }

    /// Sends pending segments, each with an acknowledgement, and requests the next call.
    fn perform(&mut self, now: Time, out: &mut Vec<Todo>) {
        for mut segment in self.leaving.drain(..) {
            self.receiver.acknowledge(now, &mut segment);
            out.push(Todo::Send(segment));
        }
        if self.receiver.must_acknowledge() {
            let mut alone = Segment::default();
            self.receiver.acknowledge(now, &mut alone);
            out.push(Todo::Send(alone));
        }
        let due = self.sender.timer().into_iter().chain(self.receiver.timer()).min();
        if let Some(due) = due.filter(|due| self.wake.is_none_or(|wake| *due < wake)) {
            self.wake = Some(due);
            out.push(Todo::Wake(due));
        }
    }
}
