//! Delivery of parcels from one endpoint to another.

use super::streams::Streams;
use super::{Event, Load, World};
use crate::network::Delivery;
use crate::parcel::Parcel;
use crate::spec::SimSpec;
use quorate_consensus::{Message, Protocol};
use quorate_types::{Lane, Time};
use std::collections::BTreeMap;

/// Transport state of each pair of endpoints.
pub(super) struct Pairs<M> {
    ends: usize,
    is_stream: bool,
    /// Whether streams are simulated packet by packet, because packets may be lost or the network file requests it.
    /// Otherwise they only need `last_arrival`.
    in_packets: bool,
    /// Arrival of the last message of each ordered pair, which keeps messages in order in a network without loss.
    last_arrival: Vec<Time>,
    pub streams: Streams<M>,
}

impl<M: Message> Pairs<M> {
    /// Returns the pairs of `ends` endpoints. `cuts` is set if faults may cut links.
    pub fn new(spec: &SimSpec, ends: usize, cuts: bool) -> Pairs<M> {
        let transport = &spec.network.transport;
        Pairs {
            ends,
            is_stream: transport.kind == Delivery::Stream,
            in_packets: spec.network.loses() || cuts || transport.every_packet,
            last_arrival: vec![Time(0); ends * ends],
            streams: Streams::new(spec, ends),
        }
    }

    fn at(&self, from: usize, to: usize) -> usize {
        from * self.ends + to
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
        if is_stream && self.pairs.in_packets {
            return self.ship_on_stream(at, from, to, parcel);
        }
        let bytes = parcel.bytes as usize;
        let overtakes = is_stream && parcel.lane() != Lane::Bulk;
        // A stream's messages arrive in the order of writing.
        let ahead = if overtakes { self.links.overtake(at, from, to, bytes) } else { None };
        let is_ordered = is_stream && ahead.is_none();
        let fate = ahead.unwrap_or_else(|| self.links.send(at, from, to, bytes));
        self.cores.on_bytes(at, from, to, bytes, self.packet_room);
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

    /// Returns the number of established connections between replicas, by wire version.
    pub fn wire_versions(&self) -> BTreeMap<u8, usize> {
        self.connections.wire_versions()
    }

    /// Returns the number of messages dropped because a stream's queue was full.
    pub fn not_queued(&self) -> u64 {
        self.pairs.streams.not_queued() + self.connections.not_queued()
    }
}
