//! Leaders that wait for late votes.

use crate::common::{commands, spec};
use quorate_adversary::byzantine::behaviours::Silent;
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::SchemeKind;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::{CostTable, Signatures, SimReport, SimSpec, run};
use std::time::Duration;

/// Four replicas with real BLS signatures on a local network.
fn bls(protocol: ProtocolKind, vote_wait_us: u64) -> SimSpec {
    let mut spec = spec(protocol);
    (spec.scheme, spec.signatures) = (SchemeKind::BLS12_381, Signatures::Real);
    spec.costs = CostTable::shipped();
    spec.consensus.vote_wait_us = vote_wait_us;
    spec.load.warmup = Duration::from_millis(50);
    spec.load.duration = Duration::from_millis(150);
    spec
}

/// Returns the number of certificates that the replicas have verified, and of keys added in the process.
fn verified(report: &SimReport) -> (u64, u64) {
    assert_eq!(report.violation, None, "{}", report.transcript.join("\n"));
    assert!(report.load.as_ref().is_some_and(|load| load.completed > 0), "commands are executed");
    let sum = |of: fn(&quorate_types::Status) -> u64| report.end.iter().flatten().map(of).sum();
    assert_eq!(sum(|status| status.view_timeouts), 0, "no view times out");
    (sum(|status| status.certificates_verified), sum(|status| status.key_additions))
}

#[test]
fn a_leader_that_waits_collects_all_votes() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::ChainedHotStuff, ProtocolKind::BasicHotStuff] {
        let (certificates, additions) = verified(&run(&bls(protocol, 0), 1, &commands));
        assert!(certificates > 20, "{protocol}: {certificates}");
        assert_eq!(additions, certificates, "{protocol}: a quorum of 3 of 4 has one absentee");
        let (certificates, additions) = verified(&run(&bls(protocol, 2000), 1, &commands));
        assert!(certificates > 20, "{protocol}: {certificates}");
        assert_eq!(additions, 0, "{protocol}: nobody is absent");
    }
}

#[test]
fn the_wait_for_a_silent_replica_ends() {
    let mut spec = bls(ProtocolKind::Jolteon, 2000);
    spec.network.faults.push(FaultSpec::misbehave(0.0, 3, Silent));
    let (certificates, additions) = verified(&run(&spec, 1, &commands));
    assert!(certificates > 20, "{certificates}");
    assert_eq!(additions, certificates, "the silent one is absent each time");
}
