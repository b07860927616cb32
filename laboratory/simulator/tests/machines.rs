//! The node's packet transports on simulated links. The tests `transports datagrams` run the same ones over UDP.

use crate::common::{commands, spec};
use quorate_client::load::LoadOptions;
use quorate_consensus::config::{Dissemination, ProtocolKind};
use quorate_network::channels::ChannelKind;
use quorate_network::transports::{QuicVotes, TransportKind, Wire};
use quorate_simulator::network::Loss;
use quorate_simulator::{NetworkSpec, SimReport, SimSpec, run};
use quorate_testkit::wires::{REPEATING, toy_wire};
use std::time::Duration;

/// A cluster on a packet transport, with loss.
fn lossy(protocol: ProtocolKind, probability: f64) -> SimSpec {
    let mut spec = SimSpec { wire: toy_wire(), ..spec(protocol) };
    spec.network.loss = Loss::Independent { probability };
    spec
}

fn sound(report: SimReport) -> SimReport {
    assert_eq!(report.violation, None, "{}", report.transcript.join("\n"));
    report
}

#[test]
fn every_protocol_makes_progress_over_lossy_links() {
    for protocol in ProtocolKind::ALL {
        let report = sound(run(&lossy(*protocol, 0.02), 1, &commands));
        assert!(report.load.is_some_and(|load| load.completed > 0), "{protocol}");
        assert!(report.lost_packets > 0, "{protocol}: nothing was lost");
    }
}

#[test]
fn equal_seeds_give_equal_traces_and_different_seeds_do_not() {
    let spec = lossy(ProtocolKind::Jolteon, 0.05);
    let [first, again, other] = [1, 1, 2].map(|seed| sound(run(&spec, seed, &commands)).trace_hash);
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn connections_survive_cuts_and_restarts() {
    for (protocol, seed) in [(ProtocolKind::Jolteon, 1), (ProtocolKind::Pbft, 2)] {
        let chaos = Some(Duration::from_secs(1));
        let mut spec = SimSpec { wire: toy_wire(), chaos, ..spec(protocol) };
        (spec.load.duration, spec.load.drain) = (Duration::from_secs(3600), Duration::ZERO);
        sound(run(&spec, seed, &commands));
    }
}

#[test]
fn without_loss_a_packet_transport_delivers_like_a_stream() {
    let over_machines = sound(run(&lossy(ProtocolKind::Jolteon, 0.0), 1, &commands));
    let stand_in = sound(run(&spec(ProtocolKind::Jolteon), 1, &commands));
    assert!(over_machines.load.is_some_and(|load| load.completed > 0) && stand_in.load.is_some());
    assert_ne!(over_machines.trace_hash, stand_in.trace_hash, "handshakes and acknowledgements take time");
    assert_eq!(toy_wire().transport, REPEATING);
}

/// The packet transports, each with its possible channels.
pub const WIRES: [(TransportKind, ChannelKind); 7] = [
    (TransportKind::QUIC, ChannelKind::TLS),
    (TransportKind::RUDP, ChannelKind::PLAIN),
    (TransportKind::RUDP, ChannelKind::DTLS),
    (TransportKind::SCTP, ChannelKind::PLAIN),
    (TransportKind::SCTP, ChannelKind::DTLS),
    (TransportKind::UDP, ChannelKind::PLAIN),
    (TransportKind::UDP, ChannelKind::DTLS),
];

/// A lossy cluster in four regions of the world, for three seconds.
pub fn around_the_world(
    (transport, channel): (TransportKind, ChannelKind),
    protocol: ProtocolKind,
    loss: f64,
) -> SimSpec {
    let wire = Wire { transport, channel, ..Wire::default() };
    let mut spec = SimSpec { wire, network: NetworkSpec::preset("wan4").expect("a preset"), ..spec(protocol) };
    spec.network.loss = Loss::Independent { probability: loss };
    (spec.load.warmup, spec.load.duration) = (Duration::from_secs(2), Duration::from_secs(3));
    spec
}

#[test]
fn every_wire_carries_protocols_around_the_world_with_loss() {
    for (wire, protocol) in WIRES.into_iter().zip([ProtocolKind::Jolteon, ProtocolKind::Pbft].into_iter().cycle()) {
        let report = sound(run(&around_the_world(wire, protocol, 0.01), 1, &commands));
        let completed = report.load.map_or(0, |load| load.completed);
        // Loss over UDP is made up for by view changes and fetches. SCTP waits for a timeout if fewer than three
        // packets follow a lost one, and delays the following ones as well.
        let least = match wire.0 {
            transport if transport == TransportKind::UDP => 50,
            transport if transport == TransportKind::SCTP => 100,
            _ => 1_000,
        };
        assert!(completed > least, "{wire:?}, {protocol}: {completed}");
        assert!(report.lost_packets > 0, "{wire:?}, {protocol}: nothing was lost");
    }
}

/// Without DTLS, whose library draws keys and signatures with lengths that no seed determines.
#[test]
fn equal_seeds_give_equal_traces_over_every_seeded_wire() {
    for wire in WIRES.into_iter().filter(|(_, channel)| *channel != ChannelKind::DTLS) {
        let spec = around_the_world(wire, ProtocolKind::Jolteon, 0.02);
        let [first, again, other] = [1, 1, 2].map(|seed| sound(run(&spec, seed, &commands)).trace_hash);
        assert_eq!(first, again, "{wire:?}");
        assert_ne!(first, other, "{wire:?}");
    }
}

/// Votes in datagrams are lost with their packets; quorums form without them, or views time out.
#[test]
fn votes_in_datagrams_carry_protocols_around_the_world_with_loss() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::Pbft, ProtocolKind::SimpleMoonshot] {
        let mut spec = around_the_world((TransportKind::QUIC, ChannelKind::TLS), protocol, 0.01);
        let on_stream = sound(run(&spec, 1, &commands));
        spec.wire.settings.quic.votes = QuicVotes::Datagrams;
        let [first, again] = [1, 1].map(|seed| sound(run(&spec, seed, &commands)));
        assert_eq!(first.trace_hash, again.trace_hash, "{protocol}");
        assert_ne!(first.trace_hash, on_stream.trace_hash, "{protocol}: the votes travel as before");
        assert!(first.load.is_some_and(|load| load.completed > 500), "{protocol}");
        assert!(first.lost_packets > 0, "{protocol}: nothing was lost");
    }
}

/// Frames arrive in any order, so some batches arrive before their bundles and wait for them. Listing them again takes
/// four view timeouts.
#[test]
fn batches_that_overtake_their_bundles_cost_no_second() {
    let completed = |transport| {
        let mut spec = spec(ProtocolKind::Jolteon);
        spec.wire.transport = transport;
        spec.consensus.dissemination = Dissemination::ReplicasCertified;
        (spec.load.clients, spec.load.warmup, spec.load.duration) = (4, Duration::ZERO, Duration::from_secs(1));
        spec.load.bundle = LoadOptions::default().bundle;
        sound(run(&spec, 1, &commands)).load.map_or(0, |load| load.completed)
    };
    let (over_packets, over_streams) = (completed(TransportKind::RUDP), completed(TransportKind::TCP));
    assert!(over_packets * 3 > over_streams, "{over_packets} of {over_streams} commands over packets");
}

#[test]
fn every_wire_survives_cuts_and_restarts() {
    for wire in WIRES {
        let chaos = Some(Duration::from_secs(1));
        let mut spec = SimSpec { chaos, ..around_the_world(wire, ProtocolKind::Jolteon, 0.0) };
        (spec.load.duration, spec.load.drain) = (Duration::from_secs(3600), Duration::ZERO);
        sound(run(&spec, 1, &commands));
    }
}
