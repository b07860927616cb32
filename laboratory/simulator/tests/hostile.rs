//! Hostile clients: honest clients are nevertheless served within a time limit, because links are served in proportion
//! to cost.

use crate::common::{commands, spec};
use quorate_adversary::byzantine::Fault;
use quorate_adversary::byzantine::behaviours::{Equivocate, Silent};
use quorate_client::load::LoadMode;
use quorate_consensus::config::{LeaderKind, ProtocolKind};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::hostile::Hostility;
use quorate_simulator::{Property, SimReport, SimSpec, run};
use std::time::Duration;

/// Time limit for a bundle of an honest client, in milliseconds.
const WITHIN_MS: f64 = 250.0;

/// Longer than any run.
const LONG_MS: f64 = 10_000.0;

/// Runs a small load, with a hostile client after the first 0.1 s for long enough to exceed the time limit.
fn beside(protocol: ProtocolKind, client: Hostility, shares_link: bool) -> SimReport {
    simulate(protocol, client, shares_link, 600)
}

fn beside_within(protocol: ProtocolKind, client: Hostility, load_ms: u64) -> SimReport {
    simulate(protocol, client, false, load_ms)
}

fn simulate(protocol: ProtocolKind, client: Hostility, shares_link: bool, load_ms: u64) -> SimReport {
    let mut spec = spec(protocol);
    spec.load.clients = 1;
    spec.load.mode = LoadMode::Closed { outstanding: 4 };
    spec.load.bundle = 1;
    spec.load.duration = Duration::from_millis(load_ms);
    let faults = FaultSpec::Hostile { at_ms: 100.0, for_ms: 300.0, client, shares_link, within_ms: WITHIN_MS };
    spec.network.faults = vec![faults];
    run(&spec, 1, &commands)
}

fn the_honest_are_served_beside(client: Hostility) {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::Pbft] {
        let report = beside(protocol, client, false);
        assert_eq!(report.violation, None, "{protocol} beside {client}");
        assert!(report.load.expect("the load is over").completed > 20, "{protocol} beside {client}");
    }
}

#[test]
fn the_honest_are_served_beside_a_flood() {
    the_honest_are_served_beside(Hostility::Flood);
}

#[test]
fn the_honest_are_served_beside_forged_bundles() {
    the_honest_are_served_beside(Hostility::Forged);
}

#[test]
fn the_honest_are_served_beside_status_requests() {
    the_honest_are_served_beside(Hostility::Status);
}

#[test]
fn the_honest_are_served_beside_a_client_that_reads_no_answers() {
    the_honest_are_served_beside(Hostility::NoRead);
}

#[test]
fn the_honest_are_served_beside_a_client_that_uses_one_backup() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::Pbft] {
        let report = beside_within(protocol, Hostility::OneBackupOnly, 3000);
        assert_eq!(report.violation, None, "{protocol}");
    }
}

#[test]
fn the_honest_find_free_links_beside_a_squatter() {
    the_honest_are_served_beside(Hostility::Squat);
}

/// The check can fail: if all share a link, honest clients that reconnect next to a squatter find no free slot.
#[test]
fn a_squatter_on_a_shared_link_keeps_the_honest_out() {
    let report = beside(ProtocolKind::Jolteon, Hostility::Squat, true);
    assert_eq!(report.violation.map(|violation| violation.property), Some(Property::Served));
}

#[test]
fn each_kind_of_hostile_client_has_one_name() {
    for kind in Hostility::ALL.iter().copied() {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        assert_eq!(kind.name(), kind.to_string());
    }
    let error = "flod".parse::<Hostility>().expect_err("no such kind").to_string();
    assert!(error.contains("flood, forged"), "{error}");
}

#[test]
fn the_honest_are_served_beside_replays_and_nothing_is_executed_twice() {
    the_honest_are_served_beside(Hostility::Replay);
}

#[test]
fn the_honest_are_served_beside_repeated_commands_and_nothing_is_executed_twice() {
    the_honest_are_served_beside(Hostility::Repeat);
}

/// The check can fail: in a shared queue, honest clients wait behind the hostile client's requests.
#[test]
fn a_shared_queue_keeps_the_honest_waiting() {
    let report = beside(ProtocolKind::Jolteon, Hostility::NoRead, true);
    assert_eq!(report.violation.map(|violation| violation.property), Some(Property::Served));
}

/// Returns a run of 0.6 s, thirty view timeouts, in which honest clients always have waiting bundles, next to a hostile
/// client that favours one replica and sends more than blocks can hold. Blocks hold few commands, and leaders change
/// often.
fn contested(protocol: ProtocolKind, client: Hostility, liar: Option<Fault>) -> SimSpec {
    let mut spec = spec(protocol);
    if !protocol.has_slots() {
        spec.consensus.leader = LeaderKind::RoundRobin;
    }
    spec.consensus.view_timeout_ms = 20;
    spec.consensus.batch = if client == Hostility::LeaderOnly { 8 } else { 100 }.into();
    spec.load.mode = LoadMode::Closed { outstanding: 2000 };
    spec.load.bundle = 1;
    spec.load.duration = Duration::from_millis(600);
    let hostile = FaultSpec::Hostile { at_ms: 0.0, for_ms: LONG_MS, client, shares_link: false, within_ms: LONG_MS };
    spec.network.faults = vec![hostile];
    spec.network.faults.extend(liar.map(|fault| FaultSpec::misbehave(0.0, 1, fault)));
    spec
}

/// Next to up to f liars, honest clients get their share of every sequence of honest leaders' blocks.
fn expect_shares_beside(client: Hostility) {
    for protocol in ProtocolKind::ALL.iter().copied() {
        for liar in [None, Some(Silent.into()), Some(Equivocate.into())] {
            let report = run(&contested(protocol, client, liar), 1, &commands);
            assert_eq!(report.violation, None, "{protocol} beside {client}, {liar:?}");
        }
    }
}

#[test]
fn a_client_that_favours_the_leader_gets_no_more_than_its_share_beside_a_liar() {
    expect_shares_beside(Hostility::LeaderOnly);
}

#[test]
fn a_client_that_favours_a_backup_gets_no_more_than_its_share_beside_a_liar() {
    expect_shares_beside(Hostility::OneBackupOnly);
}
