//! Delivery of parcels from one endpoint to another.

use super::{Event, Load, World};
use crate::clock::ms_to_ns;
use crate::network::{Delivery, Segment, Stream, StreamOptions, Todo};
use crate::parcel::Parcel;
use crate::spec::SimSpec;
use quorate_consensus::{Message, Protocol};
use quorate_types::Time;

/// Stream of an ordered pair.
type PairStream<M> = Box<Stream<Parcel<M>>>;

/// Transport state of each ordered pair of endpoints.
pub(super) struct Pairs<M> {
    ends: usize,
    is_stream: bool,
    /// Packets may be lost. Otherwise streams only need `last_arrival`.
    is_lossy: bool,
    options: StreamOptions,
    /// Maximum number of unacknowledged bytes.
    queue_bytes: u64,
    /// Arrival of the last message of each pair, to keep messages in order in a network without loss.
    last_arrival: Vec<Time>,
    streams: Vec<Option<PairStream<M>>>,
    /// Retransmissions of closed streams.
    retransmissions: u64,
    not_queued: u64,
    todo: Vec<Todo>,
    letters: Vec<Parcel<M>>,
}

impl<M: Message> Pairs<M> {
    /// Returns the pairs of `ends` endpoints. `cuts` tells whether faults may cut links.
    pub fn new(spec: &SimSpec, ends: usize, cuts: bool) -> Pairs<M> {
        let transport = &spec.network.transport;
        Pairs {
            ends,
            is_stream: transport.kind == Delivery::Stream,
            is_lossy: spec.network.loses() || cuts,
            options: StreamOptions {
                initial_ns: ms_to_ns(transport.rto_initial_ms),
                min_ns: ms_to_ns(transport.rto_min_ms),
                max_ns: ms_to_ns(transport.rto_max_ms),
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

    pub(super) fn ship(&mut self, at: Time, from: usize, to: usize, parcel: Parcel<P::Message>) {
        if self.connections.are_used() {
            return self.ship_on_machine(at, from, to, parcel);
        }
        let is_stream = self.pairs.is_stream;
        if is_stream && self.pairs.is_lossy {
            return self.ship_on_stream(at, from, to, parcel);
        }
        let bytes = parcel.bytes as usize;
        let overtakes = is_stream && !parcel.is_bulk();
        // A stream's messages arrive in the order in which its sender writes them.
        let ahead = if overtakes { self.links.overtake(at, from, to, bytes) } else { None };
        let is_ordered = is_stream && ahead.is_none();
        let fate = ahead.unwrap_or_else(|| self.links.send(at, from, to, bytes));
        let (pair, life) = (self.pairs.at(from, to), self.lives[to]);
        let (from, to) = (from as u16, to as u16);
        if let Some(again) = fate.again.filter(|_| !is_stream) {
            let load = Load::Parcel(life, parcel.clone());
            self.schedule.push(again, Event::Arrive { from, to, queued: false, load });
        }
        if let Some(mut arrives) = fate.arrives {
            if is_ordered {
                let last = &mut self.pairs.last_arrival[pair];
                arrives = arrives.max(*last);
                *last = arrives;
            }
            let load = Load::Parcel(life, parcel);
            self.schedule.push(arrives, Event::Arrive { from, to, queued: false, load });
        }
    }

    pub(super) fn is_dead(&self, end: usize) -> bool {
        self.nodes.get(end).is_some_and(|node| !node.alive)
    }

    /// Returns the sum of two endpoints' lives, which identifies the current stream between them.
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

    /// Performs the actions that a stream requests.
    fn follow(&mut self, at: Time, from: usize, to: usize, mut todo: Vec<Todo>) {
        let (sender, receiver, lives) = (from as u16, to as u16, self.lives_of(from, to));
        for todo in todo.drain(..) {
            match todo {
                Todo::Send(segment) => {
                    let fate = self.links.send(at, from, to, segment.bytes as usize);
                    for arrives in [fate.arrives, fate.again].into_iter().flatten() {
                        let load = Load::Segment(lives, segment);
                        let event = Event::Arrive { from: sender, to: receiver, queued: false, load };
                        self.schedule.push(arrives, event);
                    }
                }
                Todo::Wake(at) => self.schedule.push(at, Event::Retransmit { from: sender, to: receiver, lives }),
            }
        }
        self.pairs.todo = todo;
    }

    /// Calls `act` on the stream of a pair, unless an end has crashed since.
    pub(super) fn with_stream(
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

    pub(super) fn on_segment(&mut self, from: usize, to: usize, lives: u32, segment: Segment) {
        let pair = self.pairs.at(from, to);
        if lives != self.lives_of(from, to) || self.is_dead(to) {
            return;
        }
        let Some(stream) = self.pairs.streams[pair].as_mut() else { return };
        let mut letters = std::mem::take(&mut self.pairs.letters);
        let upto = stream.on_segment(segment.number, &mut letters);
        if let Some(arrives) = self.links.send(self.now, to, from, 0).arrives {
            self.schedule.push(arrives, Event::Acknowledge { from: from as u16, to: to as u16, lives, upto });
        }
        for parcel in letters.drain(..) {
            self.deliver(from, to, parcel);
        }
        self.pairs.letters = letters;
    }

    /// Returns the number of segments that streams sent again.
    pub fn retransmissions(&self) -> u64 {
        let open = self.pairs.streams.iter().flatten();
        self.pairs.retransmissions + open.map(|stream| stream.retransmissions).sum::<u64>()
    }

    /// Returns the number of messages dropped because a stream's queue was full.
    pub fn not_queued(&self) -> u64 {
        self.pairs.not_queued + self.connections.not_queued()
    }
}
