//! Hostile clients: whatever they do, the honest are served within a bound, because links take turns by cost.

use crate::common::{commands, spec};
use quorate_client::load::LoadMode;
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::hostile::Hostility;
use quorate_simulator::{SimReport, run};
use std::time::Duration;

/// What the honest may wait here, in milliseconds.
const WITHIN_MS: f64 = 250.0;

/// A small load, with a hostile client at work from the first tenth of a second for as long as it takes to see the bound broken.
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
        assert_eq!(report.complaint, None, "{protocol} beside {client}");
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
fn the_honest_are_served_beside_questions_for_the_status() {
    the_honest_are_served_beside(Hostility::Status);
}

#[test]
fn the_honest_are_served_beside_those_who_read_no_answers() {
    the_honest_are_served_beside(Hostility::NoRead);
}

#[test]
fn the_honest_are_served_beside_one_who_favours_a_backup() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::Pbft] {
        let report = beside_within(protocol, Hostility::OneBackupOnly, 3000);
        assert_eq!(report.complaint, None, "{protocol}");
    }
}

#[test]
fn the_honest_find_places_beside_a_squatter() {
    the_honest_are_served_beside(Hostility::Squat);
}

/// The judge can tell: where places belong to whoever came first, honest clients that dial anew find none.
#[test]
fn places_that_nobody_gives_up_keep_the_honest_out() {
    let report = beside(ProtocolKind::Jolteon, Hostility::Squat, true);
    assert_eq!(report.complaint.map(|complaint| complaint.oracle), Some("served"));
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
fn the_honest_are_served_beside_old_bundles_and_nothing_is_executed_twice() {
    the_honest_are_served_beside(Hostility::Replay);
}

#[test]
fn the_honest_are_served_beside_commands_in_two_bundles_and_nothing_is_executed_twice() {
    the_honest_are_served_beside(Hostility::Repeat);
}

/// The judge can tell: with one queue for all, as replicas had before links took turns, the honest wait behind what the hostile sent.
#[test]
fn one_queue_for_all_keeps_the_honest_waiting() {
    let report = beside(ProtocolKind::Jolteon, Hostility::NoRead, true);
    assert_eq!(report.complaint.map(|complaint| complaint.oracle), Some("served"));
}
