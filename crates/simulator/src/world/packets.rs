//! Parcels over the node's own packet transports, on simulated links and in virtual time.
//!
//! A frame has the size of the parcel's message, but contains only the parcel's number. The message stays in memory.

use super::{Event, Load, World};
use crate::keys::genesis;
use crate::parcel::Parcel;
use crate::spec::SimSpec;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_channels::{ChannelConfig, LocalEnd, Machine, NONCE_BYTES, Output, Sessions, Side};
use quorate_consensus::Protocol;
use quorate_links::{Purpose, Random};
use quorate_transports::{Association, Wire};
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{ClientId, ClusterId, EpochId, Hasher, Parameters, ReplicaId, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a parcel's number, the minimum size of a frame.
const NUMBER_BYTES: usize = 8;
/// Maximum number of parcels in flight from one end of a connection. Beyond it the oldest are dropped, since they are
/// probably lost.
const MAX_PARCELS: usize = 1 << 16;

/// Connections of all pairs of endpoints, if the transport runs over packets.
pub struct Connections<M> {
    cluster: ClusterId,
    epoch: EpochId,
    association: Option<&'static dyn Association>,
    wire: Wire,
    /// The first endpoint of the clients, which come last.
    clients: usize,
    /// Maximum number of unacknowledged bytes of one end.
    queue_bytes: usize,
    nonces: Random,
    made: u32,
    open: BTreeMap<(usize, usize), Connection<M>>,
    not_queued: u64,
}

struct Connection<M> {
    /// Distinguishes it from earlier connections of the same pair.
    number: u32,
    /// Ends of the lower and of the higher endpoint.
    halves: [Half<M>; 2],
}

/// One end of a connection.
struct Half<M> {
    machine: Box<dyn Machine>,
    /// Time of the machine's last step.
    now: Time,
    /// Scheduled wake-up.
    alarm: Option<Time>,
    /// Sent parcels that the other end has not received.
    parcels: BTreeMap<u64, Parcel<M>>,
    next: u64,
}

/// Signer of simulated handshakes. It is forgeable, but no simulated replica impersonates another.
struct Identity(ReplicaId);

fn signature(replica: ReplicaId, message: &[u8]) -> [u8; 32] {
    let mut hasher = Hasher::new(*b"simi");
    hasher.update(&replica.0.to_le_bytes());
    hasher.update(message);
    hasher.finish().0
}

impl Signer for Identity {
    fn replica(&self) -> ReplicaId {
        self.0
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&signature(self.0, message))
    }
}

impl Verifier for Identity {
    fn verify(&self, replica: ReplicaId, message: &[u8], proof: &[u8]) -> bool {
        proof == signature(replica, message)
    }
}

impl<M> Connections<M> {
    pub fn new(spec: &SimSpec, replicas: usize, seed: u64) -> Connections<M> {
        let genesis = genesis(spec);
        Connections {
            cluster: genesis.cluster(),
            epoch: genesis.epoch(),
            association: spec.wire.transport.carrier().association(),
            wire: spec.wire.clone(),
            clients: replicas,
            queue_bytes: usize::try_from(spec.network.transport.queue_bytes).unwrap_or(usize::MAX),
            nonces: Random::new(seed, Purpose::Nonces, 0),
            made: 0,
            open: BTreeMap::new(),
            not_queued: 0,
        }
    }

    /// Returns whether the transport runs over packets.
    pub(super) fn are_used(&self) -> bool {
        self.association.is_some()
    }

    /// Closes all connections of an endpoint.
    pub(super) fn close(&mut self, end: usize) {
        self.open.retain(|(low, high), _| *low != end && *high != end);
    }

    /// Returns the number of messages dropped because a queue was full.
    pub(super) fn not_queued(&self) -> u64 {
        self.not_queued
    }

    fn half(&self, me: usize, other: usize, side: Side, nonce: [u8; NONCE_BYTES], now: Time) -> Half<M> {
        let replica = ReplicaId(me as u16);
        // No profile of a link names a machine of clients.
        let settings = self.wire.settings.between(replica, ReplicaId(other as u16));
        let speaks_for = if me >= self.clients {
            LocalEnd::Client(ClientId(me as u128))
        } else {
            LocalEnd::Replica(Arc::new(Identity(replica)))
        };
        let end = ChannelConfig {
            kind: self.wire.channel,
            cluster: self.cluster,
            epoch: self.epoch,
            me: speaks_for,
            verifier: Arc::new(Identity(replica)),
            parameters: Parameters::default(),
            key_update_records: self.wire.settings.links.key_update_records,
            // Every connection has a full handshake: what one run keeps must not change the packets of the next.
            sessions: Sessions::default(),
        };
        let association = self.association.expect("parcels travel over machines");
        let machine = association.open(&end, side, &settings, nonce).expect("the wire of a spec was checked");
        Half { machine, now, alarm: None, parcels: BTreeMap::new(), next: 0 }
    }

    fn nonce(&mut self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        nonce.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&self.nonces.bits().to_le_bytes()));
        nonce
    }

    /// Creates the connection of two endpoints unless it exists, and returns its initiator: the clients, or the lower
    /// of two replicas.
    fn make(&mut self, now: Time, one: usize, other: usize) -> Option<usize> {
        let (low, high) = pair(one, other);
        if self.open.contains_key(&(low, high)) {
            return None;
        }
        let dialler = if high >= self.clients { high } else { low };
        let side = |me: usize| {
            if me == dialler {
                Side::Initiator { expects: ReplicaId((low + high - me) as u16) }
            } else {
                Side::Responder
            }
        };
        let nonces = [self.nonce(), self.nonce()];
        let half = |me, other, nonce| self.half(me, other, side(me), nonce, now);
        let halves = [half(low, high, nonces[0]), half(high, low, nonces[1])];
        self.made += 1;
        self.open.insert((low, high), Connection { number: self.made, halves });
        Some(dialler)
    }

    fn half_mut(&mut self, me: usize, other: usize) -> Option<(u32, &mut Half<M>)> {
        let connection = self.open.get_mut(&pair(me, other))?;
        Some((connection.number, &mut connection.halves[usize::from(me > other)]))
    }
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

impl<P: Protocol> World<'_, P> {
    /// Passes a parcel to the machine of its sender.
    pub(super) fn ship_on_machine(&mut self, at: Time, from: usize, to: usize, parcel: Parcel<P::Message>) {
        if let Some(dialler) = self.connections.make(at, from, to) {
            self.drive(at, dialler, from + to - dialler, |machine, now, out| machine.start(now, out));
        }
        let (queue_bytes, bytes) = (self.connections.queue_bytes, parcel.bytes as usize);
        let Some((_, half)) = self.connections.half_mut(from, to) else { return };
        if half.machine.unsent_bytes() + bytes > queue_bytes {
            self.connections.not_queued += 1;
            return;
        }
        let (number, is_vote) = (half.next, parcel.is_vote());
        half.next += 1;
        half.parcels.insert(number, parcel);
        if half.parcels.len() > MAX_PARCELS {
            half.parcels.pop_first();
        }
        let mut frame = BytesMut::zeroed(bytes.max(NUMBER_BYTES));
        (&mut frame[..NUMBER_BYTES]).put_u64_le(number);
        self.drive(at, from, to, |machine, now, out| {
            match is_vote {
                true => machine.send_vote(now, frame.freeze(), out),
                false => machine.send(now, frame.freeze(), out),
            }
            machine.flush(now, out);
        });
    }

    pub(super) fn on_packet(&mut self, from: usize, to: usize, number: u32, packet: Bytes) {
        if self.is_current(to, from, number) {
            self.drive(self.now, to, from, |machine, now, out| machine.packet(now, packet, out));
        }
    }

    /// Runs a machine's timer if it is due.
    pub(super) fn on_machine_alarm(&mut self, me: usize, other: usize, number: u32) {
        if !self.is_current(me, other, number) {
            return;
        }
        if let Some((_, half)) = self.connections.half_mut(me, other) {
            half.alarm = None;
        }
        self.drive(self.now, me, other, |machine, now, out| {
            if machine.due().is_some_and(|due| due <= now) {
                machine.timer(now, out);
            }
        });
    }

    /// Returns whether a connection still exists and its end `me` is alive.
    fn is_current(&mut self, me: usize, other: usize, number: u32) -> bool {
        !self.is_dead(me) && self.connections.half_mut(me, other).is_some_and(|(current, _)| current == number)
    }

    /// Steps a machine and performs its outputs.
    fn drive(&mut self, at: Time, me: usize, other: usize, act: impl FnOnce(&mut dyn Machine, Time, &mut Vec<Output>)) {
        let Some((number, half)) = self.connections.half_mut(me, other) else { return };
        // A turn sends at its end, so the machine may already have seen a later time.
        half.now = half.now.max(at);
        let (now, mut said) = (half.now, Vec::new());
        act(&mut *half.machine, now, &mut said);
        if let Some(due) = half.machine.due().filter(|due| half.alarm.is_none_or(|alarm| alarm > *due)) {
            half.alarm = Some(due);
            self.schedule.push(due.max(now), Event::MachineAlarm { me: me as u16, other: other as u16, number });
        }
        for output in said {
            match output {
                Output::Packet(packet) => self.put_on_link(now, me, other, number, packet),
                Output::Established | Output::PathCarries { .. } => {}
                Output::PacketTo(..) | Output::Moved(_) => {
                    unreachable!("simulated replicas keep their addresses, and packets come from no others")
                }
                Output::Frame(frame) => {
                    let parcel =
                        frame[..NUMBER_BYTES].try_into().map(u64::from_le_bytes).expect("each frame has a number");
                    let sender = self.connections.half_mut(other, me).expect("a connection has both ends").1;
                    if let Some(parcel) = sender.parcels.remove(&parcel) {
                        self.deliver(other, me, parcel);
                    }
                }
                Output::Lost(_) => {
                    self.connections.open.remove(&pair(me, other));
                    return;
                }
            }
        }
    }

    fn put_on_link(&mut self, now: Time, from: usize, to: usize, number: u32, packet: Bytes) {
        // The node puts the frames of a turn into common packets; the frames here travel alone.
        self.cores.on_bytes(now, from, to, packet.len(), self.packet_room);
        let fate = self.links.send(now, from, to, packet.len());
        for arrives in [fate.arrives, fate.again].into_iter().flatten() {
            let (from, to, load) = (from as u16, to as u16, Load::Packet(number, packet.clone()));
            self.schedule.push(arrives, Event::Arrive { from, to, queued: false, load });
        }
    }
}
