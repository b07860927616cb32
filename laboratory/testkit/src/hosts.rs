//! Two hosts in virtual time, with the router of [`quorate_network::transports`] in front of their machines, and third
//! parties that send packets with spoofed source addresses.

use crate::pair::MS;
use bytes::Bytes;
use quorate_network::channels::{ChannelConfig, Machine, Output, Side};
use quorate_network::transports::{Association, LinkId, Route, Router, Wire};
use quorate_types::{Lane, ReplicaId, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// One-way delay of a packet between hosts, in nanoseconds.
pub const DELAY_NS: u64 = 25 * MS;
pub const ROUND_TRIP: Duration = Duration::from_nanos(2 * DELAY_NS);

/// One end with all its connections.
pub struct Host {
    pub address: SocketAddr,
    end: ChannelConfig,
    /// Whether it accepts connections.
    accepts: bool,
    router: Router,
    pub machines: BTreeMap<u64, Box<dyn Machine>>,
    /// Remote address of each connection.
    remotes: BTreeMap<u64, SocketAddr>,
    /// Connections whose remotes have moved, with the old and the new address.
    pub moves: Vec<(u64, SocketAddr, SocketAddr)>,
    pub established: Vec<u64>,
    pub frames: Vec<Bytes>,
}

/// The network between hosts.
pub struct Field {
    pub now: Time,
    port: u16,
    wire: Wire,
    pub hosts: Vec<Host>,
    /// Packets in flight, by arrival time and number, with their source and destination.
    flying: BTreeMap<(Time, u64), (SocketAddr, SocketAddr, Bytes)>,
    sent: u64,
    made: u64,
    /// Every packet sent by a machine, with its source and destination.
    pub trace: Vec<(SocketAddr, SocketAddr, Bytes)>,
    /// Every answer to a packet without a connection, with its destination.
    pub answers: Vec<(SocketAddr, Bytes)>,
    /// Source address for copies of host 0's packets, which overtake the originals, and the number of bytes copied.
    pub copier: Option<(SocketAddr, usize)>,
}

pub fn association(wire: &Wire) -> &'static dyn Association {
    wire.transport.carrier().association().expect("it runs over packets")
}

impl Field {
    /// Creates a network whose hosts have this port.
    pub fn new(wire: &Wire, port: u16) -> Field {
        Field {
            now: Time::from_millis(1),
            port,
            wire: wire.clone(),
            hosts: Vec::new(),
            flying: BTreeMap::new(),
            sent: 0,
            made: 0,
            trace: Vec::new(),
            answers: Vec::new(),
            copier: None,
        }
    }

    /// Adds a host and returns its number.
    pub fn host(&mut self, end: ChannelConfig, accepts: bool) -> usize {
        let number = self.hosts.len();
        let address = ([192, 0, 2, number as u8 + 1], self.port).into();
        let end = ChannelConfig { kind: self.wire.channel, ..end };
        let greeter = association(&self.wire).greeter(&end, &self.wire.settings, [number as u8 + 1; 32]);
        let router = Router::new(greeter.expect("the channel can be set up"));
        let (machines, remotes, moves, established, frames) = Default::default();
        self.hosts.push(Host { address, end, accepts, router, machines, remotes, moves, established, frames });
        number
    }

    fn open(&mut self, at: usize, other: SocketAddr, side: Side) -> u64 {
        self.made += 1;
        let host = &mut self.hosts[at];
        let mut nonce = [at as u8; 32];
        nonce[..8].copy_from_slice(&self.made.to_le_bytes());
        nonce[8..10].copy_from_slice(&self.port.to_le_bytes());
        let machine = association(&self.wire).open(&host.end, side, &self.wire.settings, nonce).expect("a machine");
        let live = &host.machines;
        host.router.add(0, other, LinkId(self.made), live.len(), |id| live.contains_key(&id.0));
        host.machines.insert(self.made, machine);
        host.remotes.insert(self.made, other);
        self.made
    }

    /// Dials another host, which is a replica.
    pub fn dial(&mut self, from: usize, to: usize, expects: ReplicaId) -> u64 {
        let other = self.hosts[to].address;
        let id = self.open(from, other, Side::Initiator { expects });
        self.step(from, id, |machine, now, out| machine.start(now, out));
        id
    }

    pub fn send(&mut self, from: usize, id: u64, frame: Bytes) {
        self.step(from, id, |machine, now, out| {
            machine.send(now, frame, Lane::Ordinary, out);
            machine.flush(now, out);
        });
    }

    /// Sends a packet with an arbitrary source address.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, packet: Bytes, delay_ns: u64) {
        self.sent += 1;
        self.flying.insert((self.now + Duration::from_nanos(delay_ns), self.sent), (from, to, packet));
    }

    fn put(&mut self, from: usize, to: SocketAddr, packet: Bytes) {
        if from == 0
            && let Some((copier, copied)) = &mut self.copier
        {
            *copied += packet.len();
            let copier = *copier;
            self.inject(copier, to, packet.clone(), DELAY_NS / 2);
        }
        let from = self.hosts[from].address;
        self.trace.push((from, to, packet.clone()));
        self.inject(from, to, packet, DELAY_NS);
    }

    fn step(&mut self, at: usize, id: u64, act: impl FnOnce(&mut dyn Machine, Time, &mut Vec<Output>)) {
        let Some(machine) = self.hosts[at].machines.get_mut(&id) else { return };
        let mut out = Vec::new();
        act(&mut **machine, self.now, &mut out);
        for said in out {
            let other = self.hosts[at].remotes[&id];
            match said {
                Output::Packet(packet) => self.put(at, other, packet),
                Output::PacketTo(address, packet) => self.put(at, address, packet),
                Output::Moved(to) => {
                    let host = &mut self.hosts[at];
                    host.router.moved(0, other, to, LinkId(id), host.machines[&id].name());
                    host.remotes.insert(id, to);
                    host.moves.push((id, other, to));
                }
                Output::Established => {
                    let host = &mut self.hosts[at];
                    host.established.push(id);
                    if let Some(name) = host.machines[&id].name() {
                        host.router.name(0, other, LinkId(id), name);
                    }
                }
                Output::PathCarries { .. } => {}
                Output::Frame(frame) => self.hosts[at].frames.push(frame),
                Output::Lost(_) => {
                    self.hosts[at].machines.remove(&id);
                    self.hosts[at].router.remove(0, other, LinkId(id));
                }
            }
        }
    }

    fn arrive(&mut self, from: SocketAddr, to: SocketAddr, packet: Bytes) {
        let Some(at) = self.hosts.iter().position(|host| host.address == to) else { return };
        let host = &mut self.hosts[at];
        let machines = &host.machines;
        let machine = |id: LinkId| machines.get(&id.0).map(|machine| &**machine);
        let id = match host.router.route(self.now, (0, from), &packet, host.accepts, machine) {
            Route::To(id) => id.0,
            Route::Detour(id, detour) => {
                return self.step(at, id.0, |machine, now, out| machine.packet_from(now, detour, packet, out));
            }
            Route::Begin => self.open(at, from, Side::Responder),
            Route::Answer(answer) | Route::Refuse(_, Some(answer)) => {
                self.answers.push((from, answer.clone()));
                return self.inject(to, from, answer, DELAY_NS);
            }
            Route::Refuse(_, None) | Route::Drop => return,
        };
        self.step(at, id, |machine, now, out| machine.packet(now, packet, out));
    }

    /// Returns the bytes of answers sent to other addresses than these.
    pub fn answers_elsewhere(&self, honest: &[SocketAddr]) -> usize {
        let others = self.answers.iter().filter(|(to, _)| !honest.contains(to));
        others.map(|(_, answer)| answer.len()).sum()
    }

    /// Changes the source address of a host's flows, as a NAT does. Packets to the old address are lost.
    pub fn rebind(&mut self, at: usize, address: SocketAddr) {
        self.hosts[at].address = address;
    }

    /// Runs until `wanted`, or for `limit` from now. Returns whether `wanted` became true.
    pub fn run(&mut self, limit: Duration, wanted: impl Fn(&Field) -> bool) -> bool {
        let limit = self.now + limit;
        while !wanted(self) {
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let alarm = self.hosts.iter().flat_map(|host| host.machines.values()).filter_map(|end| end.due()).min();
            let Some(next) = [arrival, alarm].into_iter().flatten().min().filter(|next| *next <= limit) else {
                self.now = limit;
                return false;
            };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, (from, to, packet)) = self.flying.pop_first().expect("it was just seen");
                self.arrive(from, to, packet);
            } else {
                self.run_timers();
            }
        }
        true
    }

    fn run_timers(&mut self) {
        for at in 0..self.hosts.len() {
            let due = self.hosts[at].machines.iter().filter(|(_, end)| end.due().is_some_and(|due| due <= self.now));
            let due: Vec<u64> = due.map(|(id, _)| *id).collect();
            for id in due {
                self.step(at, id, |machine, now, out| machine.timer(now, out));
            }
        }
    }
}
