//! Two honest sessions of one address behind one router, as after a remote's restart, and arbitrary packets from third
//! parties: off-path, with the source addresses of both ends, and from their own addresses. The fuzz targets
//! `sessions_*` have the same body.

use crate::ends::{client_end, replica_end};
use crate::hosts::{Field, ROUND_TRIP};
use bytes::Bytes;
use quorate_network::channels::ChannelKind;
use quorate_network::transports::{TransportKind, Wire, WireSettings};
use quorate_types::{ClusterId, ReplicaId};
use std::net::SocketAddr;
use std::time::Duration;

/// Round trips within which a session must be established after the last foreign packet and the dial.
const MAX_ROUND_TRIPS: u32 = 12;
/// Maximum actions of a run; the next constant is the duration of one.
const MAX_ACTS: usize = 60;
const MAX_WAIT_MS: u64 = 60;
/// Maximum size of a third party's packet, in bytes.
const MAX_PACKET_BYTES: usize = 1_500;
/// Bytes that an end may send to an unverified address per byte received from it.
const MAX_AMPLIFICATION: usize = 3;
/// Replica 0, which dials, and replica 1.
const A: usize = 0;
const B: usize = 1;

fn stranger(number: u8) -> SocketAddr {
    ([198, 51, 100, number], 9).into()
}

/// Takes up to `bytes` bytes from the front of the data.
fn take<'a>(data: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (taken, rest) = data.split_at(bytes.min(data.len()));
    *data = rest;
    taken
}

fn number(data: &mut &[u8]) -> usize {
    take(data, 2).iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The field, and the third parties' knowledge: another session's first packet, which has the form of a genuine one.
struct Run {
    field: Field,
    foreign: Vec<Bytes>,
    /// Bytes that third parties sent from their own addresses.
    from_strangers: usize,
}

impl Run {
    /// Creates a third party's packet: arbitrary bytes, or a modified foreign packet.
    fn packet(&self, data: &mut &[u8]) -> Bytes {
        let (kind, length, at) = (number(data), number(data) % MAX_PACKET_BYTES, number(data));
        let bytes = take(data, length.min(40));
        match self.foreign.get(kind % (self.foreign.len() + 1)) {
            Some(foreign) if at.is_multiple_of(2) => foreign.clone(),
            Some(foreign) => {
                let mut packet = foreign.to_vec();
                let at = at % packet.len();
                packet.iter_mut().skip(at).zip(bytes).for_each(|(byte, other)| *byte = *other);
                packet.into()
            }
            // Short data is repeated, so that long packets consume few bytes of it.
            None => bytes.iter().copied().cycle().take(if bytes.is_empty() { 0 } else { length }).collect(),
        }
    }

    fn act(&mut self, data: &mut &[u8]) {
        let [kind] = *take(data, 1) else { return };
        let [a, b] = [self.field.hosts[A].address, self.field.hosts[B].address];
        let packet = self.packet(data);
        match kind % 4 {
            0 => self.field.inject(b, a, packet, 0),
            1 => self.field.inject(a, b, packet, 0),
            2 => {
                self.from_strangers += packet.len();
                self.field.inject(stranger(kind), b, packet, 0);
            }
            _ => {
                self.field.inject(stranger(kind), a, packet, 0);
                self.from_strangers += MAX_PACKET_BYTES;
            }
        }
        let wait_ms = number(data) as u64 % MAX_WAIT_MS;
        self.field.run(Duration::from_millis(wait_ms), |_| false);
    }
}

fn field(wire: &Wire, port: u16, dials: bool) -> Field {
    let cluster = ClusterId::from_name("field");
    let mut field = Field::new(wire, port);
    match dials {
        true => field.host(replica_end(cluster, 0, 0), true),
        false => field.host(client_end(cluster, 7), false),
    };
    field.host(replica_end(cluster, 1, 1), true);
    field
}

/// Returns the packets of both ends of another session, up to the first frame.
fn foreign(wire: &Wire) -> Vec<Bytes> {
    let mut field = field(wire, 5_000, false);
    let id = field.dial(A, B, ReplicaId(1));
    field.run(ROUND_TRIP * MAX_ROUND_TRIPS, |field| field.hosts.iter().all(|host| !host.established.is_empty()));
    field.send(A, id, Bytes::from_static(b"frame"));
    field.trace.iter().map(|(.., packet)| packet.clone()).collect()
}

/// Interprets the data as actions before, between and after the dials of two sessions.
///
/// # Panics
/// If a session is not established within a few round trips, if one of them does not carry a frame, if a third party
/// owns a connection, or if third parties were sent more than three times their own bytes.
pub fn check(transport: TransportKind, channel: ChannelKind, mut data: &[u8]) {
    let wire = Wire { transport, channel, settings: WireSettings::default() };
    let mut run = Run { field: field(&wire, 4_000, true), foreign: foreign(&wire), from_strangers: 0 };
    let [first, second] = take(&mut data, 2) else { return };
    let dial_at = [first, second].map(|at| usize::from(*at) % MAX_ACTS);
    let mut dialled = Vec::new();
    for at in 0..MAX_ACTS {
        for _ in dial_at.iter().filter(|dial| **dial == at) {
            dialled.push(run.field.dial(A, B, ReplicaId(1)));
        }
        run.act(&mut data);
    }
    let field = &mut run.field;
    let is_done = |field: &Field| field.hosts.iter().all(|host| host.established.len() == 2);
    assert!(field.run(ROUND_TRIP * MAX_ROUND_TRIPS, is_done), "{wire:?}: a session is not established");
    assert!(field.hosts.iter().all(|host| host.machines.len() == 2), "{wire:?}: a stranger owns a connection");
    assert!(field.hosts.iter().all(|host| host.moves.is_empty()), "{wire:?}: a stranger has moved a session");
    for id in &dialled {
        field.send(A, *id, Bytes::copy_from_slice(&id.to_le_bytes()));
    }
    field.run(ROUND_TRIP * 2, |_| false);
    let mut frames = field.hosts[B].frames.clone();
    frames.sort();
    dialled.sort_unstable_by_key(|id| id.to_le_bytes());
    let sent = dialled.iter().map(|id| Bytes::copy_from_slice(&id.to_le_bytes()));
    assert!(frames.iter().cloned().eq(sent), "{wire:?}: {frames:?} arrived");
    let honest = [field.hosts[A].address, field.hosts[B].address];
    let sent = field.trace.iter().filter(|(_, to, _)| !honest.contains(to)).map(|(.., packet)| packet.len());
    let sent: usize = sent.sum::<usize>() + field.answers_elsewhere(&honest);
    assert!(sent <= MAX_AMPLIFICATION * run.from_strangers, "{wire:?}: {sent} bytes for {}", run.from_strangers);
}
