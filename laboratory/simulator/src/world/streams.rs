//! Streams in a lossy network: the TCP model, and the parcels in its streams.

use super::{Event, Load, World};
use crate::clock::ms_to_ns;
use crate::network::{Endpoint, Segment, TcpCounts, TcpOptions, Todo};
use crate::parcel::Parcel;
use crate::spec::SimSpec;
use quorate_consensus::{Message, Protocol};
use quorate_network::transports::BULK_AHEAD_BYTES;
use quorate_types::{Lane, Time};
use std::collections::VecDeque;

/// Streams of all pairs of endpoints.
pub(super) struct Streams<M> {
    ends: usize,
    options: TcpOptions,
    /// Maximum number of unacknowledged bytes of one end.
    queue_bytes: u64,
    /// By lower and higher endpoint.
    open: Vec<Option<Box<Stream<M>>>>,
    /// Open streams, by lower and higher endpoint.
    closed: TcpCounts,
    not_queued: u64,
    todo: Vec<Todo>,
    arrived: Vec<Parcel<M>>,
}

/// Both directions of a connection: the ends of the lower and of the higher endpoint.
struct Stream<M> {
    halves: [Half<M>; 2],
}

/// One end of a connection, and its outgoing data.
struct Half<M> {
    endpoint: Endpoint,
    /// Writes scheduled for the ends of iterations, with their times.
    writes: VecDeque<(Time, Parcel<M>)>,
    /// Bytes in `writes` and `bulk`.
    waiting_bytes: u64,
    /// Bulk that waits until less than [`BULK_AHEAD_BYTES`] are unsent, so that votes overtake it.
    bulk: VecDeque<Parcel<M>>,
    /// Parcels in the stream, with the position of their end.
    parcels: VecDeque<(u64, Parcel<M>)>,
}

impl<M: Message> Half<M> {
    fn new(options: TcpOptions) -> Half<M> {
        Half {
            endpoint: Endpoint::new(options),
            writes: VecDeque::new(),
            waiting_bytes: 0,
            bulk: VecDeque::new(),
            parcels: VecDeque::new(),
        }
    }

    /// Moves due writes to the stream.
    fn write(&mut self, now: Time) {
        while self.writes.front().is_some_and(|(at, _)| *at <= now) {
            let (_, parcel) = self.writes.pop_front().expect("there is a first one");
            if parcel.lane() == Lane::Bulk && (!self.bulk.is_empty() || self.is_full()) {
                self.bulk.push_back(parcel);
            } else {
                self.append(parcel);
            }
        }
        self.refill();
    }

    fn is_full(&self) -> bool {
        self.endpoint.unsent_bytes() >= BULK_AHEAD_BYTES as u64
    }

    fn append(&mut self, parcel: Parcel<M>) {
        let bytes = u64::from(parcel.bytes).max(1);
        self.waiting_bytes -= bytes;
        self.parcels.push_back((self.endpoint.write(bytes), parcel));
    }

    /// Moves bulk to the stream while there is space. Returns whether any was moved.
    fn refill(&mut self) -> bool {
        let mut moved = false;
        while !self.is_full()
            && let Some(parcel) = self.bulk.pop_front()
        {
            self.append(parcel);
            moved = true;
        }
        moved
    }

    fn queued_bytes(&self) -> u64 {
        self.endpoint.unacknowledged_bytes() + self.waiting_bytes
    }
}

impl<M: Message> Streams<M> {
    pub fn new(spec: &SimSpec, ends: usize) -> Streams<M> {
        let (transport, packets) = (&spec.network.transport, &spec.network.packets);
        Streams {
            ends,
            options: TcpOptions {
                rto_initial_ns: ms_to_ns(transport.rto_initial_ms),
                rto_min_ns: ms_to_ns(transport.rto_min_ms),
                rto_max_ns: ms_to_ns(transport.rto_max_ms),
                tick_ns: ms_to_ns(transport.tick_ms),
                segment_bytes: packets.mtu_bytes - packets.header_bytes,
                fast_retransmit: transport.fast_retransmit,
                tail_loss_probe: transport.tail_loss_probe,
            },
            queue_bytes: transport.queue_bytes,
            open: (0..ends * ends).map(|_| None).collect(),
            closed: TcpCounts::default(),
            not_queued: 0,
            todo: Vec::new(),
            arrived: Vec::new(),
        }
    }

    fn at(&self, one: usize, other: usize) -> usize {
        one.min(other) * self.ends + one.max(other)
    }

    /// Closes every stream of an endpoint.
    pub fn close(&mut self, end: usize) {
        for other in 0..self.ends {
            let at = self.at(end, other);
            if let Some(stream) = self.open[at].take() {
                stream.halves.iter().for_each(|half| self.closed.add(half.endpoint.counts()));
            }
        }
    }

    /// Returns both ends of a stream, `me`'s first.
    fn both(&mut self, me: usize, other: usize) -> Option<(&mut Half<M>, &mut Half<M>)> {
        let at = self.at(me, other);
        let [low, high] = &mut self.open[at].as_mut()?.halves;
        Some(if me < other { (low, high) } else { (high, low) })
    }

    /// Queues a parcel to be written at `at`. Returns whether a write must be scheduled for that time.
    fn queue(&mut self, at: Time, from: usize, to: usize, parcel: Parcel<M>) -> bool {
        let (pair, options, queue_bytes) = (self.at(from, to), self.options, self.queue_bytes);
        self.open[pair].get_or_insert_with(|| Box::new(Stream { halves: [Half::new(options), Half::new(options)] }));
        let (half, _) = self.both(from, to).expect("it was just opened");
        let bytes = u64::from(parcel.bytes).max(1);
        if half.queued_bytes() + bytes > queue_bytes {
            self.not_queued += 1;
            return false;
        }
        half.waiting_bytes += bytes;
        let is_first = half.writes.back().is_none_or(|(last, _)| *last != at);
        half.writes.push_back((at, parcel));
        is_first
    }

    /// Returns the number of messages dropped because a queue was full.
    pub fn not_queued(&self) -> u64 {
        self.not_queued
    }

    /// Returns the counters of all streams.
    pub fn counts(&self) -> TcpCounts {
        let mut counts = self.closed;
        let halves = self.open.iter().flatten().flat_map(|stream| &stream.halves);
        halves.for_each(|half| counts.add(half.endpoint.counts()));
        counts
    }
}

impl<P: Protocol> World<'_, P> {
    /// Returns the sum of two endpoints' lives, which identifies the present stream between them.
    fn lives_of(&self, from: usize, to: usize) -> u32 {
        self.lives[from] + self.lives[to]
    }

    pub(super) fn ship_on_stream(&mut self, at: Time, from: usize, to: usize, parcel: Parcel<P::Message>) {
        if !self.is_dead(to) && self.pairs.streams.queue(at, from, to, parcel) {
            let lives = self.lives_of(from, to);
            self.schedule.push(at, Event::Write { from: from as u16, to: to as u16, lives });
        }
    }

    pub(super) fn on_write(&mut self, from: usize, to: usize, lives: u32) {
        self.with_stream(from, to, lives, |half, now, todo| {
            half.write(now);
            half.endpoint.flush(now, todo);
        });
    }

    pub(super) fn on_stream_alarm(&mut self, me: usize, other: usize, lives: u32) {
        self.with_stream(me, other, lives, |half, now, todo| half.endpoint.on_timer(now, todo));
    }

    pub(super) fn on_segment(&mut self, from: usize, to: usize, lives: u32, segment: &Segment) {
        self.with_stream(to, from, lives, |half, now, todo| half.endpoint.on_segment(now, segment, todo));
        if segment.bytes == 0 || lives != self.lives_of(from, to) {
            return;
        }
        let mut arrived = std::mem::take(&mut self.pairs.streams.arrived);
        if let Some((receiver, sender)) = self.pairs.streams.both(to, from) {
            let received = receiver.endpoint.received();
            while sender.parcels.front().is_some_and(|(end, _)| *end <= received) {
                arrived.extend(sender.parcels.pop_front().map(|(_, parcel)| parcel));
            }
        }
        for parcel in arrived.drain(..) {
            self.deliver(from, to, parcel);
        }
        self.pairs.streams.arrived = arrived;
    }

    /// Calls `act` on an end of a stream, unless one of its ends has crashed since, and performs the requested actions.
    fn with_stream(
        &mut self,
        me: usize,
        other: usize,
        lives: u32,
        act: impl FnOnce(&mut Half<P::Message>, Time, &mut Vec<Todo>),
    ) {
        if lives != self.lives_of(me, other) || self.is_dead(me) || self.is_dead(other) {
            return;
        }
        let (now, mut todo) = (self.now, std::mem::take(&mut self.pairs.streams.todo));
        if let Some((half, _)) = self.pairs.streams.both(me, other) {
            act(half, now, &mut todo);
            if half.refill() {
                half.endpoint.flush(now, &mut todo);
            }
        }
        for todo in todo.drain(..) {
            match todo {
                Todo::Send(segment) => self.put_segment(me, other, lives, segment),
                Todo::Wake(at) => {
                    self.schedule.push(at, Event::StreamAlarm { me: me as u16, other: other as u16, lives });
                }
            }
        }
        self.pairs.streams.todo = todo;
    }

    fn put_segment(&mut self, from: usize, to: usize, lives: u32, segment: Segment) {
        self.cores.on_packet();
        let fate = self.links.send(self.now, from, to, segment.bytes as usize);
        let (from, to) = (from as u16, to as u16);
        if let Some(again) = fate.again {
            let load = Load::Segment(lives, Box::new(segment.clone()));
            self.schedule.push(again, Event::Arrive { from, to, queued: false, load });
        }
        if let Some(arrives) = fate.arrives {
            let load = Load::Segment(lives, Box::new(segment));
            self.schedule.push(arrives, Event::Arrive { from, to, queued: false, load });
        }
    }

    /// Returns the counters of the streams.
    pub fn stream_counts(&self) -> TcpCounts {
        self.pairs.streams.counts()
    }
}
