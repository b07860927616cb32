//! Foreign packets during an honest handshake, over the kernel's sockets.

use crate::datagrams::{Ground, PAIRS};
use crate::strangers::{Relay, dialler};
use bytes::Bytes;
use quorate_network::channels::{ChannelKind, Output};
use quorate_network::transports::{LinkConfig, TransportKind, Wire, WireSettings};
use quorate_testkit::ends::{client, drive_with, quick};
use quorate_types::{ReplicaId, Time};
use std::cell::RefCell;

fn foreign(wire: &Wire) -> Vec<Bytes> {
    let mut out = Vec::new();
    dialler(wire, 99).start(Time(0), &mut out);
    let first = out.into_iter().find_map(|said| match said {
        Output::Packet(packet) => Some(packet),
        _ => None,
    });
    vec![
        first.expect("it begins"),
        Bytes::from([&[0x40][..], &[7; 40]].concat()),
        Bytes::from_static(&[0x15; 15]),
        Bytes::from_static(&[0x53; 9]),
    ]
}

fn attempt(transport: TransportKind, channel: ChannelKind, kind: usize, at: usize) -> bool {
    let links = LinkConfig { handshake_timeout_ms: 1_500, ..quick() };
    let wire = Wire { transport, channel, settings: WireSettings::from(links) };
    let mut ground = Ground::over(1, wire.clone());
    let mut a = ground.replica(0, 0);
    let relay = RefCell::new(Relay::new(ground.address(0)));
    let mut c = ground.client_through(7, relay.borrow().address());
    let packet = foreign(&wire)[kind].clone();
    drive_with([&mut a, &mut c], "a client", |[a, c]| {
        relay.borrow_mut().carry_with(at, &packet);
        a.link_to(client(7)).is_some() && c.transport.is_connected(ReplicaId(0))
    });
    !c.refused_with("no handshake within")
}

#[test]
fn one_foreign_packet_stops_no_handshake() {
    let mut stopped = Vec::new();
    for (transport, channel) in PAIRS {
        for kind in 0..4 {
            for at in 0..4 {
                if !attempt(transport, channel, kind, at) {
                    stopped.push(format!("{transport} {channel}: foreign packet {kind} before packet {at}"));
                }
            }
        }
    }
    assert!(stopped.is_empty(), "{stopped:#?}");
}

/// A replica restarts after the client has sent it some handshake packets. No attempt times out in this test: the
/// client has to begin a parallel one.
#[test]
fn a_client_reaches_a_replica_that_restarts_in_mid_handshake() {
    for (transport, channel) in PAIRS {
        for at in 1..4 {
            let links = LinkConfig { handshake_timeout_ms: 600_000, dial_timeout_ms: 50, ..quick() };
            let wire = Wire { transport, channel, settings: WireSettings::from(links) };
            let mut ground = Ground::over(1, wire);
            let mut a = Some(ground.replica(0, 0));
            let mut relay = Relay::new(ground.address(0));
            let mut c = ground.client_through(7, relay.address());
            let mut has_restarted = false;
            drive_with([&mut c], "a client of a replica that restarts", |[c]| {
                relay.carry();
                a.as_mut().expect("it runs").poll();
                if relay.carried() >= at && !std::mem::replace(&mut has_restarted, true) {
                    drop(a.take());
                    a = Some(ground.replica(0, 0));
                }
                let knows = a.as_ref().expect("it runs").link_to(client(7)).is_some();
                has_restarted && knows && c.transport.is_connected(ReplicaId(0))
            });
        }
    }
}

/// Both replicas restart while an attacker sends first packets in the name of each to the other. Their ports are
/// public.
#[test]
fn replicas_reconnect_under_a_stream_of_first_packets_in_their_names() {
    for (transport, channel) in PAIRS {
        let links = LinkConfig { handshake_timeout_ms: 600_000, ..quick() };
        let wire = Wire { transport, channel, settings: WireSettings::from(links) };
        let mut ground = Ground::over(2, wire.clone());
        let mut relay = crate::relay::Relay::new(ground.address(1));
        let mut a = ground.replica_through(0, 0, (1, relay.address()));
        let mut b = ground.replica(1, 1);
        let first = foreign(&wire).swap_remove(0);
        drive_with([&mut a, &mut b], "two replicas", |[a, b]| {
            relay.run();
            relay.forge(&first);
            a.transport.is_connected(ReplicaId(1)) && b.transport.is_connected(ReplicaId(0))
        });
    }
}
