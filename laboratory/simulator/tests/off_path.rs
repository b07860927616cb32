//! An off-path attacker against clusters over packets: honest ends connect as quickly as without it, and the cluster
//! commits as much.

use crate::common::{commands, spec};
use crate::machines::{WIRES, around_the_world};
use quorate_client::load::LoadMode;
use quorate_consensus::config::ProtocolKind;
use quorate_network::channels::ChannelKind;
use quorate_network::transports::TransportKind;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::off_path::Forgery;
use quorate_simulator::{Property, SimReport, SimSpec, Wire, run};
use quorate_testkit::wires::toy_wire;
use std::time::Duration;

/// Longer than any run.
const LONG_MS: f64 = 10_000.0;
/// Returns the minimum share of an undisturbed run's commands that must complete. Runs over DTLS vary more: no seed
/// determines the lengths of its handshakes.
fn least_share((_, channel): (TransportKind, ChannelKind)) -> f64 {
    if channel == ChannelKind::DTLS { 0.4 } else { 0.75 }
}

/// Packets per second to each end.
const FORGED_PER_S: f64 = 2_000.0;
/// Commands per second; few enough for DTLS handshakes and links around the world.
const RATE: f64 = 1_000.0;

/// An off-path attacker sends these packets to everyone for the whole run.
fn off_path(packets: Forgery) -> FaultSpec {
    let (to, within_ms) = (Vec::new(), 250.0);
    FaultSpec::OffPath { at_ms: 0.0, for_ms: LONG_MS, packets, packets_per_s: FORGED_PER_S, to, within_ms }
}

fn on_a_switch((transport, channel): (TransportKind, ChannelKind)) -> SimSpec {
    let mut spec = SimSpec { wire: Wire { transport, channel, ..Wire::default() }, ..spec(ProtocolKind::Jolteon) };
    spec.load.mode = LoadMode::Open { rate: RATE, max_outstanding: 10_000 };
    // DTLS takes longer to start under load.
    let warmup_ms = if channel == ChannelKind::DTLS { 1_000 } else { 100 };
    (spec.load.warmup, spec.load.duration) = (Duration::from_millis(warmup_ms), Duration::from_millis(200));
    spec
}

fn completed(report: &SimReport) -> u64 {
    report.load.as_ref().map_or(0, |load| load.completed)
}

fn beside(spec: &SimSpec, faults: Vec<FaultSpec>) -> SimReport {
    let mut spec = spec.clone();
    spec.network.faults = faults;
    run(&spec, 1, &commands)
}

#[test]
fn honest_ends_are_connected_and_served_beside_every_kind_of_packets_from_off_the_path() {
    for wire in WIRES {
        let spec = on_a_switch(wire);
        let undisturbed = completed(&beside(&spec, Vec::new()));
        assert!(undisturbed > 0, "{wire:?}");
        for packets in Forgery::ALL.iter().copied() {
            let report = beside(&spec, vec![off_path(packets)]);
            assert_eq!(report.violation, None, "{wire:?} beside {packets}: {}", report.transcript.join("\n"));
            let share = completed(&report) as f64 / undisturbed as f64;
            assert!(share >= least_share(wire), "{wire:?} beside {packets}: {share} of {undisturbed}");
        }
    }
}

/// All kinds at once, with intercontinental round trips, in which a handshake is hit by thousands of packets.
#[test]
fn honest_ends_around_the_world_are_connected_beside_all_kinds_at_once() {
    for wire in WIRES {
        let mut spec = around_the_world(wire, ProtocolKind::Jolteon, 0.0);
        spec.load.mode = LoadMode::Open { rate: RATE, max_outstanding: 10_000 };
        (spec.load.warmup, spec.load.duration) = (Duration::from_millis(1500), Duration::from_secs(1));
        let undisturbed = completed(&beside(&spec, Vec::new()));
        assert!(undisturbed > 0, "{wire:?}");
        let faults = Forgery::ALL.iter().map(|packets| match off_path(*packets) {
            FaultSpec::OffPath { at_ms, for_ms, packets, to, .. } => {
                FaultSpec::OffPath { at_ms, for_ms, packets, packets_per_s: 200.0, to, within_ms: 3_000.0 }
            }
            other => other,
        });
        let report = beside(&spec, faults.collect());
        assert_eq!(report.violation, None, "{wire:?}: {}", report.transcript.join("\n"));
        let share = completed(&report) as f64 / undisturbed as f64;
        assert!(share >= least_share(wire), "{wire:?}: {share} of {undisturbed}");
    }
}

/// Restarted replicas reconnect during the attack.
#[test]
fn replicas_that_restart_beside_a_sender_off_the_path_come_back() {
    for (wire, seed) in WIRES.into_iter().step_by(3).zip(1..) {
        let chaos = Some(Duration::from_millis(500));
        let mut spec = SimSpec { chaos, ..around_the_world(wire, ProtocolKind::Pbft, 0.0) };
        spec.load.mode = LoadMode::Open { rate: RATE, max_outstanding: 10_000 };
        (spec.load.duration, spec.load.drain) = (Duration::from_secs(3600), Duration::ZERO);
        spec.network.faults = Forgery::ALL.iter().copied().map(off_path).collect();
        for fault in &mut spec.network.faults {
            if let FaultSpec::OffPath { packets_per_s, .. } = fault {
                *packets_per_s = 200.0;
            }
        }
        let report = run(&spec, seed, &commands);
        assert_eq!(report.violation, None, "{wire:?}: {}", report.transcript.join("\n"));
    }
}

/// The oracle can fail: the toy transport assigns every packet of an address to its connection, and starts a connection
/// with any packet.
#[test]
fn packets_that_name_no_connection_are_found() {
    for packets in Forgery::ALL.iter().copied() {
        let spec = SimSpec { wire: toy_wire(), ..on_a_switch(WIRES[1]) };
        let violation =
            beside(&spec, vec![off_path(packets)]).violation.unwrap_or_else(|| panic!("{packets}: nothing"));
        assert_eq!(violation.property, Property::OffPath, "{packets}: {}", violation.what);
        assert!(violation.what.contains("a connection of endpoint"), "{packets}: {}", violation.what);
    }
}

#[test]
fn equal_seeds_forge_equal_packets() {
    let spec = on_a_switch((TransportKind::RUDP, ChannelKind::PLAIN));
    let hash = |packets| beside(&spec, vec![off_path(packets)]).trace_hash;
    assert_eq!(hash(Forgery::Junk), hash(Forgery::Junk));
    assert_ne!(hash(Forgery::Junk), beside(&spec, Vec::new()).trace_hash);
}
