//! Rolling upgrades in virtual time: replicas move to another wire version one by one, under load, and back.

use crate::common::{commands, spec};
use quorate_applications::compare_histories;
use quorate_client::load::LoadMode;
use quorate_consensus::config::ProtocolKind;
use quorate_network::channels::ChannelKind;
use quorate_network::channels::version::{NEWEST_WIRE_VERSION, OLDEST_WIRE_VERSION};
use quorate_network::transports::{TransportKind, Wire};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::{SimReport, SimSpec, run};
use std::time::Duration;

/// Time between the stops of two replicas, and the time that each is away, in milliseconds. A replica returns and
/// catches up before the next one stops.
const APART_MS: f64 = 300.0;
const AWAY_MS: f64 = 50.0;
const WARMUP_MS: f64 = 100.0;
const VIEW_TIMEOUT_MS: u64 = 100;

/// A command every two milliseconds.
fn load() -> LoadMode {
    LoadMode::Open { rate: 500.0, max_outstanding: 1_000 }
}

/// A cluster of four that begins with the oldest version, and whose replicas move to each of `versions` in turn.
fn rolled(protocol: ProtocolKind, wire: (TransportKind, ChannelKind), versions: &[u8]) -> SimSpec {
    let (transport, channel) = wire;
    let mut spec = SimSpec { wire: Wire { transport, channel, ..Wire::default() }, ..spec(protocol) };
    spec.wire.settings.links.newest_wire_version = OLDEST_WIRE_VERSION;
    spec.consensus.view_timeout_ms = VIEW_TIMEOUT_MS;
    spec.consensus.min_view_timeout_ms = VIEW_TIMEOUT_MS;
    let moves = versions.iter().flat_map(|version| (0..4).map(move |replica| (*version, replica)));
    spec.network.faults = moves
        .enumerate()
        .map(|(at, (wire_version, replica))| FaultSpec::Upgrade {
            at_ms: WARMUP_MS + APART_MS * at as f64,
            for_ms: AWAY_MS,
            replica,
            wire_version,
        })
        .collect();
    (spec.load.clients, spec.load.bundle, spec.load.mode) = (1, 1, load());
    spec.load.duration = Duration::from_millis((APART_MS * spec.network.faults.len() as f64) as u64 + 200);
    spec
}

fn sound(spec: &SimSpec, restarts: u64) -> SimReport {
    let report = run(spec, 1, &commands);
    assert_eq!(report.violation, None, "{}", report.transcript.join("\n"));
    assert_eq!(report.restarts, restarts);
    let ends = report.end.iter().map(|end| end.as_ref().expect("all replicas run"));
    let histories: Vec<_> = ends.map(|end| (end.replica, end.history.clone())).collect();
    compare_histories(&histories).expect("all replicas executed the same");
    report
}

/// Upgrades and returns. No command is lost: the client resends until it is answered, and none is left without an
/// answer. The service is never away for two view timeouts.
fn upgrades_and_returns(protocol: ProtocolKind, wire: (TransportKind, ChannelKind)) {
    let case = format!("{protocol} over {}", wire.0);
    let up = sound(&rolled(protocol, wire, &[NEWEST_WIRE_VERSION]), 4);
    assert_eq!(up.wire_versions.into_iter().collect::<Vec<_>>(), [(NEWEST_WIRE_VERSION, 6)], "{case}");
    let back = sound(&rolled(protocol, wire, &[NEWEST_WIRE_VERSION, OLDEST_WIRE_VERSION]), 8);
    assert_eq!(back.wire_versions.into_iter().collect::<Vec<_>>(), [(OLDEST_WIRE_VERSION, 6)], "{case}");
    let load = back.load.expect("the load ran to its end");
    assert!(load.completed > 1_000, "{case}: {} commands", load.completed);
    assert_eq!((load.unanswered, load.unsent, load.refused), (0, 0, 0), "{case}");
    let gap = load.longest_gap.as_secs_f64() * 1e3 / VIEW_TIMEOUT_MS as f64;
    println!("{case}: longest gap {gap:.2} view timeouts");
    assert!(gap < 2.0, "{case}: a gap of {gap:.2} view timeouts");
}

/// Half of the replicas are upgraded: links between two of them use the new version, all others the old one.
#[test]
fn links_of_a_mixed_cluster_use_the_version_of_their_older_end() {
    let mut spec = rolled(ProtocolKind::Jolteon, (TransportKind::QUIC, ChannelKind::TLS), &[NEWEST_WIRE_VERSION]);
    spec.network.faults.truncate(2);
    let versions = sound(&spec, 2).wire_versions;
    assert_eq!(versions.into_iter().collect::<Vec<_>>(), [(OLDEST_WIRE_VERSION, 5), (NEWEST_WIRE_VERSION, 1)]);
}

#[test]
fn jolteon_over_quic() {
    upgrades_and_returns(ProtocolKind::Jolteon, (TransportKind::QUIC, ChannelKind::TLS));
}

#[test]
fn pbft_over_rudp() {
    upgrades_and_returns(ProtocolKind::Pbft, (TransportKind::RUDP, ChannelKind::PLAIN));
}

#[test]
fn hotstuff_over_sctp() {
    upgrades_and_returns(ProtocolKind::BasicHotStuff, (TransportKind::SCTP, ChannelKind::PLAIN));
}
