//! Parcels over the node's own packet transports, on simulated links and in virtual time.
//!
//! As behind the node's sockets, each endpoint has a router in front of its machines: the channel's greeter handles
//! packets without a connection, and a connection begins with the packet that proves its sender's address. Addresses
//! come from [`address`]; no endpoint changes its own.
//!
//! A frame has the size of the parcel's message, but contains only the parcel's number. The message stays in memory.

use super::addresses::{address, endpoint};
use super::off_path::Judge;
use super::{Event, Load, World};
use crate::keys::{SimIdentity, genesis};
use crate::links::{Purpose, Random};
use crate::parcel::Parcel;
use crate::spec::SimSpec;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_consensus::Protocol;
use quorate_network::channels::{ChannelConfig, LocalEnd, Machine, NONCE_BYTES, Output, Sessions, Side, Versions};
use quorate_network::transports::{Association, LinkId, Route, Router, Wire};
use quorate_types::{ClientId, ClusterId, EpochId, Lane, Parameters, ReplicaId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

/// Bytes of a parcel's number, the minimum size of a frame.
const NUMBER_BYTES: usize = 8;
/// Maximum number of parcels in flight from one end of a connection. Beyond it the oldest ones, which are probably
/// lost, are dropped.
const MAX_PARCELS: usize = 1 << 16;
/// Maximum number of a pair's connection attempts that the accepting end has answered but that are not established. A
/// further one replaces the oldest.
const MAX_ATTEMPTS: usize = 8;

/// Connections of all pairs of endpoints, if the transport uses packets.
pub struct Connections<M> {
    cluster: ClusterId,
    epoch: EpochId,
    association: Option<&'static dyn Association>,
    wire: Wire,
    /// Index of the first client endpoint. Clients come last.
    clients: usize,
    /// Wire versions that each replica speaks.
    versions: Vec<Versions>,
    /// Maximum number of unacknowledged bytes of one end.
    queue_bytes: usize,
    nonces: Random,
    secrets: Random,
    /// Number of the most recent half.
    made: u64,
    /// Routers by endpoint; empty unless the transport uses packets.
    routers: Vec<Router>,
    halves: BTreeMap<u64, Half>,
    open: BTreeMap<(usize, usize), Connection<M>>,
    not_queued: u64,
}

/// The connection of two endpoints. It ends at both when one of them loses it.
struct Connection<M> {
    dialler: usize,
    /// Halves of the lower and of the higher endpoint that carry frames: the dialler's from the start, the other once
    /// it is established.
    halves: [Option<u64>; 2],
    /// Whether each endpoint has established it.
    is_established: [bool; 2],
    /// Halves of the accepting end that are not established, oldest first.
    attempts: VecDeque<u64>,
    /// Frames of the accepting end that wait for its half, with their lanes.
    waiting: VecDeque<(Bytes, Lane)>,
    waiting_bytes: usize,
    /// Parcels in flight, of the lower and of the higher endpoint.
    parcels: [BTreeMap<u64, Parcel<M>>; 2],
    next: [u64; 2],
}

impl<M> Connection<M> {
    fn new(dialler: usize) -> Connection<M> {
        Connection {
            dialler,
            halves: [None; 2],
            is_established: [false; 2],
            attempts: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            parcels: [BTreeMap::new(), BTreeMap::new()],
            next: [0; 2],
        }
    }
}

/// One end of a connection, or of an attempt to connect.
struct Half {
    me: usize,
    other: usize,
    machine: Box<dyn Machine>,
    /// Time of the machine's last step.
    now: Time,
    /// Scheduled wake-up.
    alarm: Option<Time>,
}

/// Returns the index of an endpoint's half in its pair.
fn side(me: usize, other: usize) -> usize {
    usize::from(me > other)
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

impl<M> Connections<M> {
    /// Returns the connections of `ends` endpoints, `replicas` of which, the first ones, are replicas.
    pub fn new(spec: &SimSpec, replicas: usize, ends: usize, seed: u64) -> Connections<M> {
        let genesis = genesis(spec);
        let mut connections = Connections {
            cluster: genesis.cluster(),
            epoch: genesis.epoch(),
            association: spec.wire.transport.carrier().association(),
            wire: spec.wire.clone(),
            clients: replicas,
            versions: vec![Versions::up_to(spec.wire.settings.links.newest_wire_version); replicas],
            queue_bytes: usize::try_from(spec.network.transport.queue_bytes).unwrap_or(usize::MAX),
            nonces: Random::new(seed, Purpose::Nonces, 0),
            secrets: Random::new(seed, Purpose::Nonces, 1),
            made: 0,
            routers: Vec::new(),
            halves: BTreeMap::new(),
            open: BTreeMap::new(),
            not_queued: 0,
        };
        if connections.are_used() {
            connections.routers = (0..ends).map(|end| connections.router(end)).collect();
        }
        connections
    }

    /// Returns whether the transport uses packets.
    pub(super) fn are_used(&self) -> bool {
        self.association.is_some()
    }

    /// Closes all connections of an endpoint that restarts. Its router gets a new secret.
    pub(super) fn close(&mut self, end: usize) {
        let of_end = |pair: &&(usize, usize)| pair.0 == end || pair.1 == end;
        let pairs: Vec<(usize, usize)> = self.open.keys().filter(of_end).copied().collect();
        pairs.into_iter().for_each(|(low, high)| self.remove(low, high));
        if self.are_used() {
            self.routers[end] = self.router(end);
        }
    }

    /// Returns the number of messages dropped because a queue was full.
    pub(super) fn not_queued(&self) -> u64 {
        self.not_queued
    }

    /// Returns whether two endpoints have a connection that is not established at both.
    pub(super) fn is_beginning(&self, one: usize, other: usize) -> bool {
        self.open.get(&pair(one, other)).is_some_and(|connection| connection.is_established != [true; 2])
    }

    fn identity(&self, me: usize) -> ChannelConfig {
        let replica = ReplicaId(me as u16);
        match self.versions.get(me) {
            Some(versions) => {
                let end = self.end(LocalEnd::Replica(Arc::new(SimIdentity(replica))));
                ChannelConfig { versions: *versions, ..end }
            }
            None => self.end(LocalEnd::Client(ClientId(me as u128))),
        }
    }

    /// Sets the newest wire version that a replica speaks in its next connections.
    pub(super) fn speak(&mut self, replica: usize, newest: u8) {
        self.versions[replica] = Versions::up_to(newest);
    }

    /// Returns the wire versions of the established connections between replicas, with the number of connections.
    pub(super) fn wire_versions(&self) -> BTreeMap<u8, usize> {
        let mut counts = BTreeMap::new();
        let of_replicas = self.open.range(..(self.clients, 0)).filter(|((_, high), _)| *high < self.clients);
        for (_, connection) in of_replicas.filter(|(_, connection)| connection.is_established == [true; 2]) {
            let half = connection.halves[0].and_then(|id| self.halves.get(&id));
            let agreed = half.and_then(|half| half.machine.agreed());
            if let Some(agreed) = agreed {
                *counts.entry(agreed.version).or_default() += 1;
            }
        }
        counts
    }

    fn end(&self, me: LocalEnd) -> ChannelConfig {
        ChannelConfig {
            kind: self.wire.channel,
            cluster: self.cluster,
            epoch: self.epoch,
            me,
            verifier: Arc::new(SimIdentity(ReplicaId(0))),
            parameters: Parameters::default(),
            versions: Versions::up_to(self.wire.settings.links.newest_wire_version),
            key_update_records: self.wire.settings.links.key_update_records,
            // Every connection has a full handshake, so that sessions kept by one run cannot change the packets of the
            // next.
            sessions: Sessions::default(),
        }
    }

    fn router(&mut self, end: usize) -> Router {
        let (secret, identity) = (self.secret(), self.identity(end));
        let association = self.association.expect("only packets have routers");
        Router::new(
            association.greeter(&identity, &self.wire.settings, secret).expect("the wire of a spec was checked"),
        )
    }

    fn secret(&mut self) -> [u8; NONCE_BYTES] {
        bytes_of(&mut self.secrets)
    }

    /// Returns the first packet of a client with this ID, which has no replica's key.
    pub(super) fn first_packet(&self, now: Time, client: u128, nonces: &mut Random) -> Option<Bytes> {
        let side = Side::Initiator { expects: ReplicaId(0) };
        let (end, settings) = (self.end(LocalEnd::Client(ClientId(client))), &self.wire.settings);
        let mut machine = self.association?.open(&end, side, settings, bytes_of(nonces)).ok()?;
        let mut out = Vec::new();
        machine.start(now, &mut out);
        out.into_iter().find_map(|said| if let Output::Packet(packet) = said { Some(packet) } else { None })
    }

    fn open(&mut self, now: Time, me: usize, other: usize, side: Side) -> u64 {
        // Link profiles apply to replicas only.
        let settings = self.wire.settings.between(ReplicaId(me as u16), ReplicaId(other as u16));
        let association = self.association.expect("parcels travel over machines");
        let (end, nonce) = (self.identity(me), bytes_of(&mut self.nonces));
        let machine = association.open(&end, side, &settings, nonce).expect("the wire of a spec was checked");
        self.made += 1;
        let (halves, live) = (&self.halves, self.open.len());
        self.routers[me].add(0, address(other), LinkId(self.made), live, |id| halves.contains_key(&id.0));
        self.halves.insert(self.made, Half { me, other, machine, now, alarm: None });
        self.made
    }

    /// Creates the connection of two endpoints unless it exists. Returns the half of its initiator: the clients, or the
    /// lower of two replicas.
    fn make(&mut self, now: Time, one: usize, other: usize) -> Option<u64> {
        let (low, high) = pair(one, other);
        if self.open.contains_key(&(low, high)) {
            return None;
        }
        let dialler = if high >= self.clients { high } else { low };
        let other = low + high - dialler;
        let id = self.open(now, dialler, other, Side::Initiator { expects: ReplicaId(other as u16) });
        let mut connection = Connection::new(dialler);
        connection.halves[side(dialler, other)] = Some(id);
        self.open.insert((low, high), connection);
        Some(id)
    }

    /// Creates a half of the accepting end. Returns `None` if the sender has not dialled, which means that the packet
    /// belongs to an abandoned attempt.
    fn begin(&mut self, now: Time, me: usize, from: SocketAddr) -> Option<u64> {
        let other = endpoint(from, self.routers.len())?;
        self.open.get(&pair(me, other)).filter(|connection| connection.dialler == other)?;
        let id = self.open(now, me, other, Side::Responder);
        let attempts = &mut self.open.get_mut(&pair(me, other)).expect("it was just there").attempts;
        attempts.push_back(id);
        let oldest = if attempts.len() > MAX_ATTEMPTS { attempts.pop_front() } else { None };
        oldest.into_iter().for_each(|oldest| self.forget(oldest));
        Some(id)
    }

    fn forget(&mut self, id: u64) {
        if let Some(half) = self.halves.remove(&id) {
            self.routers[half.me].remove(0, address(half.other), LinkId(id));
        }
    }

    /// Removes the connection of two endpoints with all its halves.
    fn remove(&mut self, one: usize, other: usize) {
        let Some(connection) = self.open.remove(&pair(one, other)) else { return };
        let halves = connection.halves.into_iter().flatten().chain(connection.attempts);
        halves.for_each(|id| self.forget(id));
    }

    /// Records that a half is established, and returns the frames that waited for it. Drops an earlier half of the same
    /// end, whose remote has started over.
    fn establish(&mut self, id: u64) -> VecDeque<(Bytes, Lane)> {
        let half = &self.halves[&id];
        let (me, other) = (half.me, half.other);
        if let Some(name) = half.machine.name() {
            self.routers[me].name(0, address(other), LinkId(id), name);
        }
        let Some(connection) = self.open.get_mut(&pair(me, other)) else { return VecDeque::new() };
        let at = side(me, other);
        connection.is_established[at] = true;
        let mut dropped: VecDeque<u64> = VecDeque::new();
        if connection.halves[at] != Some(id) {
            dropped = std::mem::take(&mut connection.attempts);
            dropped.extend(connection.halves[at].replace(id));
            dropped.retain(|other| *other != id);
        }
        let mut waiting = VecDeque::new();
        if me != connection.dialler {
            waiting = std::mem::take(&mut connection.waiting);
            connection.waiting_bytes = 0;
        }
        dropped.into_iter().for_each(|id| self.forget(id));
        waiting
    }

    /// Handles the end of a half. Unless it was only an attempt, the connection ends at both endpoints.
    fn on_lost(&mut self, id: u64) {
        let Some(half) = self.halves.get(&id) else { return };
        let (me, other) = (half.me, half.other);
        match self.open.get_mut(&pair(me, other)) {
            Some(connection) if connection.halves[side(me, other)] != Some(id) => {
                connection.attempts.retain(|attempt| *attempt != id);
                self.forget(id);
            }
            _ => self.remove(me, other),
        }
    }

    /// Queues a frame at the sending end. Returns the half that sends it now; `None` if it waits or is dropped.
    fn queue(&mut self, from: usize, to: usize, lane: Lane, parcel: Parcel<M>) -> Option<(u64, Bytes, Lane)> {
        let connection = self.open.get_mut(&pair(from, to))?;
        let (at, bytes) = (side(from, to), parcel.bytes as usize);
        let half = connection.halves[at];
        let unsent = half.map_or(connection.waiting_bytes, |id| self.halves[&id].machine.unsent_bytes());
        if unsent + bytes > self.queue_bytes {
            self.not_queued += 1;
            return None;
        }
        let number = connection.next[at];
        connection.next[at] += 1;
        let parcels = &mut connection.parcels[at];
        parcels.insert(number, parcel);
        if parcels.len() > MAX_PARCELS {
            parcels.pop_first();
        }
        let mut frame = BytesMut::zeroed(bytes.max(NUMBER_BYTES));
        (&mut frame[..NUMBER_BYTES]).put_u64_le(number);
        let frame = frame.freeze();
        match half {
            Some(id) => Some((id, frame, lane)),
            None => {
                connection.waiting_bytes += frame.len();
                connection.waiting.push_back((frame, lane));
                None
            }
        }
    }

    /// Removes and returns the parcel whose number is in a frame to `me`.
    fn parcel(&mut self, me: usize, other: usize, frame: &[u8]) -> Option<Parcel<M>> {
        let number = u64::from_le_bytes(*frame.first_chunk()?);
        self.open.get_mut(&pair(me, other))?.parcels[side(other, me)].remove(&number)
    }
}

fn bytes_of(random: &mut Random) -> [u8; NONCE_BYTES] {
    let mut bytes = [0; NONCE_BYTES];
    bytes.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&random.bits().to_le_bytes()));
    bytes
}

impl<P: Protocol> World<'_, P> {
    /// Passes a parcel to its sender's machine.
    pub(super) fn ship_on_machine(&mut self, at: Time, from: usize, to: usize, parcel: Parcel<P::Message>) {
        if let Some(id) = self.connections.make(at, from, to) {
            self.off_path.judge.dials(at, from, to, &self.links);
            self.drive(at, id, |machine, now, out| machine.start(now, out));
        }
        let Some((id, frame, lane)) = self.connections.queue(from, to, parcel.lane(), parcel) else { return };
        self.drive(at, id, |machine, now, out| {
            machine.send(now, frame, lane, out);
            machine.flush(now, out);
        });
    }

    /// Handles a packet that arrives at an endpoint from any sender.
    pub(super) fn on_packet(&mut self, from: SocketAddr, to: usize, packet: Bytes) {
        if self.is_dead(to) {
            return;
        }
        let accepts = to < self.replicas();
        let Connections { routers, halves, .. } = &mut self.connections;
        let machine = |id: LinkId| halves.get(&id.0).map(|half| &*half.machine);
        match routers[to].route(self.now, (0, from), &packet, accepts, machine) {
            Route::To(id) => self.drive(self.now, id.0, |machine, now, out| machine.packet(now, packet, out)),
            Route::Detour(id, detour) => {
                self.drive(self.now, id.0, |machine, now, out| machine.packet_from(now, detour, packet, out));
            }
            Route::Begin => {
                self.off_path.judge.begins(to, &mut self.oracle);
                if let Some(id) = self.connections.begin(self.now, to, from) {
                    self.drive(self.now, id, |machine, now, out| machine.packet(now, packet, out));
                }
            }
            Route::Answer(answer) | Route::Refuse(_, Some(answer)) => self.put_to_address(self.now, to, from, answer),
            Route::Refuse(_, None) | Route::Drop => {}
        }
    }

    /// Runs a machine's timer if it is due.
    pub(super) fn on_machine_alarm(&mut self, id: u64) {
        let Some(half) = self.connections.halves.get_mut(&id) else { return };
        let me = half.me;
        half.alarm = None;
        if self.is_dead(me) {
            return;
        }
        self.drive(self.now, id, |machine, now, out| {
            if machine.due().is_some_and(|due| due <= now) {
                machine.timer(now, out);
            }
        });
    }

    /// Steps a machine and performs its outputs. If this establishes it, passes it the waiting frames.
    fn drive(&mut self, at: Time, id: u64, act: impl FnOnce(&mut dyn Machine, Time, &mut Vec<Output>)) {
        let waiting = self.step(at, id, act);
        if !waiting.is_empty() {
            self.step(at, id, |machine, now, out| {
                waiting.into_iter().for_each(|(frame, lane)| machine.send(now, frame, lane, out));
                machine.flush(now, out);
            });
        }
    }

    /// Steps a machine and performs its outputs. Returns the frames that waited for it.
    fn step(
        &mut self,
        at: Time,
        id: u64,
        act: impl FnOnce(&mut dyn Machine, Time, &mut Vec<Output>),
    ) -> VecDeque<(Bytes, Lane)> {
        let mut waiting = VecDeque::new();
        let Some(half) = self.connections.halves.get_mut(&id) else { return waiting };
        // An iteration sends at its end, so the machine may already have seen a later time.
        half.now = half.now.max(at);
        let (now, me, other, mut said) = (half.now, half.me, half.other, Vec::new());
        act(&mut *half.machine, now, &mut said);
        if let Some(due) = half.machine.due().filter(|due| half.alarm.is_none_or(|alarm| alarm > *due)) {
            half.alarm = Some(due);
            self.schedule.push(due.max(now), Event::MachineAlarm(id));
        }
        for output in said {
            match output {
                Output::Packet(packet) => self.put_on_link(now, me, other, packet),
                Output::PacketTo(to, packet) => self.put_to_address(now, me, to, packet),
                Output::PathCarries { .. } => {}
                Output::Moved(to) => Judge::moves(me, other, to, &mut self.oracle),
                Output::Established => {
                    waiting = self.connections.establish(id);
                    if !self.connections.is_beginning(me, other) {
                        self.off_path.judge.is_established(now, me, other, &mut self.oracle);
                    }
                }
                Output::Frame(frame) => {
                    self.off_path.judge.delivers(me, other, &mut self.oracle);
                    if let Some(parcel) = self.connections.parcel(me, other, &frame) {
                        self.deliver(other, me, parcel);
                    }
                }
                Output::Lost(why) => {
                    self.off_path.judge.loses(me, other, &why, &mut self.oracle);
                    self.connections.on_lost(id);
                    return VecDeque::new();
                }
            }
        }
        waiting
    }

    /// Sends to an address that may be unverified, and may belong to nobody.
    fn put_to_address(&mut self, now: Time, me: usize, to: SocketAddr, packet: Bytes) {
        self.off_path.judge.answers(to, packet.len(), &mut self.oracle);
        if let Some(to) = endpoint(to, self.connections.routers.len()) {
            self.put_on_link(now, me, to, packet);
        }
    }

    fn put_on_link(&mut self, now: Time, from: usize, to: usize, packet: Bytes) {
        // The node coalesces an iteration's frames into packets; here, each frame has packets of its own.
        self.cores.on_bytes(now, from, to, packet.len(), self.packet_room);
        let fate = self.links.send(now, from, to, packet.len());
        self.overhear_packet(from, to, &packet, fate.arrives);
        for arrives in [fate.arrives, fate.again].into_iter().flatten() {
            let load = Load::Packet(address(from), packet.clone());
            self.schedule.push(arrives, Event::Arrive { from: from as u16, to: to as u16, queued: false, load });
        }
    }
}
