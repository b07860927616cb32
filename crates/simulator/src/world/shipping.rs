//! How parcels travel from one endpoint to another.

use super::{Event, World};
use crate::network::{Delivery, Segment, Stream, StreamOptions, Todo};
use crate::parcel::Parcel;
use crate::spec::SimSpec;
use quorate_consensus::{Message, Protocol};
use quorate_types::Time;

/// Nanoseconds in a millisecond.
const NS_PER_MS: f64 = 1e6;

/// The stream of an ordered pair that has spoken.
type PairStream<M> = Box<Stream<Parcel<M>>>;

/// What each ordered pair of endpoints has between it.
pub(super) struct Pairs<M> {
    ends: usize,
    is_stream: bool,
    /// Whether packets may be lost, so that streams have something to do.
    is_lossy: bool,
    options: StreamOptions,
    /// Most bytes that are sent and not acknowledged.
    queue_bytes: u64,
    /// In place of the streams of a network that loses nothing: when the last message of each pair arrives.
    last_arrival: Vec<Time>,
    streams: Vec<Option<PairStream<M>>>,
    /// Of streams that are no more.
    retransmissions: u64,
    not_queued: u64,
    todo: Vec<Todo>,
    letters: Vec<Parcel<M>>,
}

impl<M: Message> Pairs<M> {
    /// Between so many endpoints; `cuts`: links that lose nothing by themselves may be cut.
    pub fn new(spec: &SimSpec, ends: usize, cuts: bool) -> Pairs<M> {
        let transport = &spec.network.transport;
        let nanos = |ms: f64| (ms * NS_PER_MS) as u64;
        Pairs {
            ends,
            is_stream: transport.kind == Delivery::Stream,
            is_lossy: spec.network.loses() || cuts,
            options: StreamOptions {
                initial_ns: nanos(transport.rto_initial_ms),
                least_ns: nanos(transport.rto_least_ms),
                most_ns: nanos(transport.rto_most_ms),
                fast_retransmit: transport.fast_retransmit,
            },
            queue_bytes: transport.queue_bytes,
            last_arrival: vec![Time(0); ends * ends],
            streams: (0..ends * ends).map(|_| None).collect(),
            retransmissions: 0,
            not_queued: 0,
            todo: Vec::new(),
            letters: Vec::new(),
        }
    }

    fn at(&self, from: usize, to: usize) -> usize {
        from * self.ends + to
    }

    /// Closes every stream of an endpoint.
    pub fn close(&mut self, end: usize) {
        for other in 0..self.ends {
            for pair in [self.at(end, other), self.at(other, end)] {
                self.retransmissions += self.streams[pair].take().map_or(0, |stream| stream.retransmissions);
            }
        }
    }

    /// Segments that streams sent again.
    pub fn retransmissions(&self) -> u64 {
        self.retransmissions + self.streams.iter().flatten().map(|stream| stream.retransmissions).sum::<u64>()
    }

    /// Messages that found a full queue.
    pub fn not_queued(&self) -> u64 {
        self.not_queued
    }
}

impl<P: Protocol> World<'_, P> {
    pub(super) fn ship_to_replicas(&mut self, at: Time, from: usize, parcel: Parcel<P::Message>) {
        let mut others = (0..self.replicas()).filter(|to| *to != from);
        let last = others.next_back();
        for to in others {
            self.ship(at, from, to, parcel.clone());
        }
        if let Some(to) = last {
            self.ship(at, from, to, parcel);
        }
    }

    /// Puts a parcel on its way.
    pub(super) fn ship(&mut self, at: Time, from: usize, to: usize, parcel: Parcel<P::Message>) {
        if self.connections.are_used() {
            return self.ship_on_machine(at, from, to, parcel);
        }
        let is_stream = self.pairs.is_stream;
        if is_stream && self.pairs.is_lossy {
            return self.ship_on_stream(at, from, to, parcel);
        }
        let fate = self.links.send(at, from, to, parcel.bytes as usize);
        let (ends, life) = ((from as u16, to as u16), self.lives[to]);
        if let Some(again) = fate.again.filter(|_| !is_stream) {
            let event = Event::Arrive { from: ends.0, to: ends.1, queued: false, life, parcel: parcel.clone() };
            self.schedule.push(again, event);
        }
        if let Some(mut arrives) = fate.arrives {
            if is_stream {
                let pair = self.pairs.at(from, to);
                let last = &mut self.pairs.last_arrival[pair];
                arrives = arrives.max(*last);
                *last = arrives;
            }
            self.schedule.push(arrives, Event::Arrive { from: ends.0, to: ends.1, queued: false, life, parcel });
        }
    }

    pub(super) fn is_dead(&self, end: usize) -> bool {
        self.nodes.get(end).is_some_and(|node| !node.alive)
    }

    /// What tells the stream of a pair from those before it.
    fn lives_of(&self, from: usize, to: usize) -> u32 {
        self.lives[from] + self.lives[to]
    }

    fn ship_on_stream(&mut self, at: Time, from: usize, to: usize, parcel: Parcel<P::Message>) {
        if self.is_dead(to) {
            return;
        }
        let (bytes, room, pair) = (parcel.bytes as usize, self.links.packet_room(), self.pairs.at(from, to));
        let options = self.pairs.options;
        let stream = self.pairs.streams[pair].get_or_insert_with(|| Box::new(Stream::new(options)));
        if stream.unacknowledged_bytes() + bytes as u64 > self.pairs.queue_bytes {
            self.pairs.not_queued += 1;
            return;
        }
        let mut todo = std::mem::take(&mut self.pairs.todo);
        stream.send(at, parcel, bytes, room, &mut todo);
        self.follow(at, from, to, todo);
    }

    /// Does what a stream asks for.
    fn follow(&mut self, at: Time, from: usize, to: usize, mut todo: Vec<Todo>) {
        let (sender, receiver, lives) = (from as u16, to as u16, self.lives_of(from, to));
        for todo in todo.drain(..) {
            match todo {
                Todo::Send(segment) => {
                    let fate = self.links.send(at, from, to, segment.bytes as usize);
                    for arrives in [fate.arrives, fate.again].into_iter().flatten() {
                        let event = Event::Segment { from: sender, to: receiver, queued: false, lives, segment };
                        self.schedule.push(arrives, event);
                    }
                }
                Todo::Wake(at) => self.schedule.push(at, Event::Retransmit { from: sender, to: receiver, lives }),
            }
        }
        self.pairs.todo = todo;
    }

    pub(super) fn on_stream(
        &mut self,
        from: usize,
        to: usize,
        lives: u32,
        act: impl FnOnce(&mut Stream<Parcel<P::Message>>, Time, &mut Vec<Todo>),
    ) {
        let pair = self.pairs.at(from, to);
        if lives != self.lives_of(from, to) || self.is_dead(from) || self.is_dead(to) {
            return;
        }
        let Some(stream) = self.pairs.streams[pair].as_mut() else { return };
        let mut todo = std::mem::take(&mut self.pairs.todo);
        act(stream, self.now, &mut todo);
        self.follow(self.now, from, to, todo);
    }

    pub(super) fn segment(&mut self, from: usize, to: usize, lives: u32, segment: Segment) {
        let pair = self.pairs.at(from, to);
        if lives != self.lives_of(from, to) || self.is_dead(to) {
            return;
        }
        let Some(stream) = self.pairs.streams[pair].as_mut() else { return };
        let mut letters = std::mem::take(&mut self.pairs.letters);
        let upto = stream.arrived(segment.number, &mut letters);
        if let Some(arrives) = self.links.send(self.now, to, from, 0).arrives {
            self.schedule.push(arrives, Event::Acknowledge { from: from as u16, to: to as u16, lives, upto });
        }
        for parcel in letters.drain(..) {
            self.deliver(from, to, parcel);
        }
        self.pairs.letters = letters;
    }

    /// Segments that streams sent again.
    pub fn retransmissions(&self) -> u64 {
        self.pairs.retransmissions()
    }

    /// Messages that found a full queue.
    pub fn not_queued(&self) -> u64 {
        self.pairs.not_queued() + self.connections.not_queued()
    }
}
