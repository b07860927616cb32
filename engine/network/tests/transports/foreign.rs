//! Foreign packets sent by an attacker off the path during an honest handshake, in virtual time: every kind, before
//! every packet, one at a time and in a stream, at the ports of clients and of replicas. The oracle: the honest ends
//! connect as soon as without them.

use crate::datagrams::PAIRS;
use bytes::Bytes;
use quorate_network::channels::{ChannelConfig, ChannelKind, Output, Side};
use quorate_network::transports::{TransportKind, Wire, WireSettings};
use quorate_testkit::ends::{client_end, replica_end};
use quorate_testkit::hosts::{DELAY_NS, Field, ROUND_TRIP, association};
use quorate_types::{ClusterId, ReplicaId, Time};
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum delay of a handshake by a foreign packet: two round trips.
const MAX_DELAY: Duration = Duration::from_nanos(2 * 2 * DELAY_NS);
const LIMIT: Duration = Duration::from_secs(30);
/// Maximum bytes sent to an unproved address, per byte received from it.
const MAX_AMPLIFICATION: usize = 3;

pub type Pair = (TransportKind, ChannelKind);

fn wire((transport, channel): Pair) -> Wire {
    Wire { transport, channel, settings: WireSettings::default() }
}

fn replica(number: u16) -> ChannelConfig {
    replica_end(ClusterId::from_name("field"), number, number as u8)
}

/// The end that dials replica 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Dialler {
    Client,
    /// A replica, from its listening port.
    Peer,
}

/// Creates two hosts, the first of which dials the second.
pub fn field(pair: Pair, dialler: Dialler) -> Field {
    field_at(pair, dialler, 4_000)
}

fn field_at(pair: Pair, dialler: Dialler, port: u16) -> Field {
    let mut field = Field::new(&wire(pair), port);
    match dialler {
        Dialler::Client => field.host(client_end(ClusterId::from_name("field"), 7), false),
        Dialler::Peer => field.host(replica(0), true),
    };
    field.host(replica(1), true);
    field
}

fn is_connected(field: &Field) -> bool {
    field.hosts.iter().all(|host| !host.established.is_empty())
}

/// Returns all packets of another session with the same cluster, in both directions. It has other addresses: nobody off
/// the path has a token for another end's address.
fn other_session(pair: Pair) -> Vec<Bytes> {
    let mut field = field_at(pair, Dialler::Client, 5_000);
    let id = field.dial(0, 1, ReplicaId(1));
    assert!(field.run(LIMIT, is_connected), "{pair:?}");
    field.send(0, id, Bytes::from_static(b"frame"));
    field.run(ROUND_TRIP, |_| false);
    let mut out = Vec::new();
    let mut machine = field.hosts[0].machines.remove(&id).expect("it was just connected");
    machine.close(field.now, &mut out);
    let farewell = out.into_iter().filter_map(|said| match said {
        Output::Packet(packet) => Some(packet),
        _ => None,
    });
    field.trace.iter().map(|(_, _, packet)| packet.clone()).chain(farewell).collect()
}

/// Returns an initiator's first packet.
fn first_packet(pair: Pair, number: u64) -> Bytes {
    let end = client_end(ClusterId::from_name("field"), 1_000 + number);
    let end = ChannelConfig { kind: pair.1, ..end };
    let mut nonce = [0xee; 32];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    let side = Side::Initiator { expects: ReplicaId(1) };
    let (wire, mut out) = (wire(pair), Vec::new());
    let mut machine = association(&wire).open(&end, side, &wire.settings, nonce).expect("a machine");
    machine.start(Time::from_millis(1), &mut out);
    match &out[..] {
        [Output::Packet(packet)] => packet.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns every kind of foreign packet, in groups that are sent together: each packet of another session, all of them
/// with other tokens, and junk with every first byte.
fn foreign(pair: Pair) -> Vec<Vec<Bytes>> {
    let session = other_session(pair);
    let changed = session.iter().map(|packet| {
        let mut packet = packet.to_vec();
        packet.iter_mut().skip(1).take(16).for_each(|byte| *byte = 0);
        Bytes::from(packet)
    });
    let junk = (0..=u8::MAX).map(|first| {
        let length = [1, 9, 15, 18, 41, 300, 1_200][usize::from(first) % 7];
        Bytes::from([&[first][..], &vec![first.wrapping_mul(31); length]].concat())
    });
    // Version negotiation, and a Retry that nobody sent (RFC 9000, section 17.2).
    let versions = Bytes::from_static(&[0x80, 0, 0, 0, 0, 0, 0, 0x1a, 0x2a, 0x3a, 0x4a]);
    let retry = Bytes::from([&[0xf0, 0, 0, 0, 1, 0, 8][..], &[7; 40]].concat());
    // An unencrypted alert (RFC 9147, section 4).
    let alert = Bytes::from_static(&[21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40]);
    let others = PAIRS.iter().filter(|other| other.1 != pair.1).map(|other| first_packet(*other, 1));
    let mut groups: Vec<Vec<Bytes>> = session.iter().map(|packet| vec![packet.clone()]).collect();
    groups.extend([changed.collect(), junk.collect(), others.chain([versions, retry, alert]).collect()]);
    groups
}

/// Returns how long an honest handshake takes while `disturb` sends foreign packets before each event.
fn handshake(pair: Pair, dialler: Dialler, mut disturb: impl FnMut(&mut Field)) -> Option<Duration> {
    let mut field = field(pair, dialler);
    let began = field.now;
    field.dial(0, 1, ReplicaId(1));
    while !is_connected(&field) {
        disturb(&mut field);
        let seen = field.trace.len();
        let has_step = field.run(LIMIT, |field| is_connected(field) || field.trace.len() > seen);
        if !has_step || field.now.since(began) > LIMIT {
            return None;
        }
    }
    let machines = field.hosts.iter().map(|host| host.machines.len());
    assert!(machines.eq([1, 1]), "{pair:?}: somebody off the path owns a connection");
    Some(field.now.since(began))
}

fn addresses(field: &Field) -> [SocketAddr; 2] {
    [field.hosts[0].address, field.hosts[1].address]
}

/// Sends foreign packets before each packet of the honest ends, in both directions.
fn one_packet(pair: Pair, dialler: Dialler) -> Vec<String> {
    let took = handshake(pair, dialler, |_| {}).expect("an undisturbed handshake");
    let mut late = Vec::new();
    for (kind, packets) in foreign(pair).iter().enumerate() {
        for towards in [0, 1] {
            let every = handshake(pair, dialler, |field| {
                let addresses = addresses(field);
                for packet in packets {
                    field.inject(addresses[1 - towards], addresses[towards], packet.clone(), DELAY_NS / 2);
                }
            });
            if every.is_none_or(|every| every > took + MAX_DELAY) {
                late.push(format!(
                    "{pair:?}, {dialler:?}, foreign packets {kind} to end {towards}: {every:?}, {took:?}"
                ));
            }
        }
    }
    late
}

#[test]
fn a_foreign_packet_before_every_packet_delays_no_handshake() {
    let late = PAIRS.into_iter().flat_map(|pair| {
        [Dialler::Client, Dialler::Peer].into_iter().flat_map(move |dialler| one_packet(pair, dialler))
    });
    let late: Vec<String> = late.collect();
    assert!(late.is_empty(), "{} cases: {:#?}", late.len(), &late[..late.len().min(20)]);
}

#[test]
fn one_foreign_packet_at_each_position_delays_no_handshake() {
    for pair in PAIRS {
        let took = handshake(pair, Dialler::Peer, |_| {}).expect("an undisturbed handshake");
        let session = other_session(pair);
        for at in 0..8 {
            for (kind, packet) in session.iter().enumerate() {
                for towards in [0, 1] {
                    let mut step = 0;
                    let disturbed = handshake(pair, Dialler::Peer, |field| {
                        if step == at {
                            let addresses = addresses(field);
                            field.inject(addresses[1 - towards], addresses[towards], packet.clone(), 0);
                        }
                        step += 1;
                    });
                    let is_late = disturbed.is_none_or(|disturbed| disturbed > took + MAX_DELAY);
                    assert!(!is_late, "{pair:?}, packet {kind} at {at} to {towards}: {disturbed:?}, {took:?}");
                }
            }
        }
    }
}

/// An attacker sends an endless stream of first packets in the names of both ends, each with other random numbers, from
/// before the honest ends begin: 1,000 a second in each direction.
#[test]
fn a_stream_of_first_packets_delays_no_handshake() {
    const STREAM: u64 = 1_500;
    for pair in PAIRS {
        for dialler in [Dialler::Client, Dialler::Peer] {
            let took = handshake(pair, dialler, |_| {}).expect("an undisturbed handshake");
            let packets: Vec<Bytes> = (0..64).map(|number| first_packet(pair, number)).collect();
            let mut has_begun = false;
            let disturbed = handshake(pair, dialler, |field| {
                if std::mem::replace(&mut has_begun, true) {
                    return;
                }
                for at in 0..STREAM {
                    let (addresses, packet) = (addresses(field), &packets[at as usize % packets.len()]);
                    field.inject(addresses[0], addresses[1], packet.clone(), at * 1_000_000);
                    field.inject(addresses[1], addresses[0], packet.clone(), at * 1_000_000);
                }
            });
            let is_late = disturbed.is_none_or(|disturbed| disturbed > took + MAX_DELAY);
            assert!(!is_late, "{pair:?}, {dialler:?}: {disturbed:?}, {took:?}");
        }
    }
}

/// An unproved address receives at most three times the bytes that were sent in its name, and no state is kept.
#[test]
fn strangers_are_answered_with_at_most_three_times_as_much_and_own_nothing() {
    let stranger: SocketAddr = ([198, 51, 100, 1], 9).into();
    for pair in PAIRS {
        let mut packets = foreign(pair).concat();
        packets.extend((0..20).map(|number| first_packet(pair, number)));
        for packet in packets {
            let mut field = Field::new(&wire(pair), 4_000);
            let replica = field.host(replica(1), true);
            field.inject(stranger, field.hosts[replica].address, packet.clone(), 0);
            field.run(Duration::from_secs(20), |_| false);
            let sent: usize =
                field.trace.iter().map(|(.., own)| own.len()).sum::<usize>() + field.answers_elsewhere(&[]);
            assert!(sent <= MAX_AMPLIFICATION * packet.len(), "{pair:?}: {sent} bytes for {packet:?}");
            assert!(field.hosts[replica].machines.is_empty(), "{pair:?}: a connection began with {packet:?}");
        }
    }
}
