//! Runs every behaviour under every protocol in the simulator: honest replicas agree and are not accused, and the
//! cluster makes progress where the protocol guarantees it.

mod exposure;
mod voted_out;
mod world;

use quorate_adversary::byzantine::behaviours::{
    AssembleCertificate, Busy, DoubleVote, Equivocate, EquivocateBatches, ForgeCertificate, ForgeEvidence, Fork,
    HoardCertificates, Replay, ShowLate, Silent, StaleCertificate, WithholdBundles, WithholdCertificates,
};
use quorate_adversary::byzantine::kind::Kind;
use quorate_adversary::byzantine::{Fault, Needs};
use quorate_client::session::DEFAULT_RETRY_MS;
use quorate_consensus::config::{Dissemination, LeaderKind, ProtocolKind};
use quorate_simulator::{SimReport, run};
use std::time::Duration;
use world::{LEADER, OTHER, commands, nearer, seeds, spec, spreading, two_of_seven};

macro_rules! for_every_protocol {
    ($($name:ident: $kind:ident,)+) => {
        mod behaves {
            use super::*;
            $(#[test] fn $name() { every_fault(ProtocolKind::$kind); })+
        }
        mod is_nearer_than_others {
            use super::*;
            $(#[test] fn $name() { every_fault_nearby(ProtocolKind::$kind); })+
        }
        mod outlives_trouble {
            use super::*;
            $(#[test] fn $name() { every_fault_in_trouble(ProtocolKind::$kind); })+
        }
    };
}

quorate_consensus::each_protocol!(for_every_protocol);

/// With as many faulty replicas as are tolerated, with different faults at the same time and including the first
/// leader, honest replicas agree.
#[test]
fn two_faulty_replicas_of_seven_violate_nothing() {
    for (number, protocol) in ProtocolKind::ALL.iter().enumerate() {
        for (at, one) in Fault::ALL.into_iter().enumerate() {
            let other = Fault::ALL[(at + 1 + number) % Fault::ALL.len()];
            let leader = protocol.leaders()[at % protocol.leaders().len()];
            let spec = two_of_seven(spec(*protocol, leader, LEADER, one), other);
            let report = run(&spec, 1, &commands);
            let case = format!("{one} of replica 0 and {other} of replica 1 under {protocol} with {leader} leaders");
            assert_eq!(report.violation, None, "{case}: {}", report.transcript.join("\n"));
            let honest = report.end.iter().flatten().filter(|status| status.replica.0 > OTHER);
            let evidence: Vec<&String> = honest.flat_map(|status| &status.evidence).collect();
            let about_them = |line: &&String| ["replica 0 ", "replica 1 "].iter().any(|them| line.starts_with(them));
            assert!(evidence.iter().all(about_them), "{case}: {evidence:?}");
        }
    }
}

/// A faulty replica can delay its own clients' bundles by their retry timeout, but not other clients'.
#[test]
fn every_fault_of_a_replica_that_spreads_bundles_is_tolerated() {
    every_fault_of_a_spreader(Dissemination::Replicas);
}

/// The same if bundles are proposed only once a quorum has acknowledged them.
#[test]
fn every_fault_of_a_replica_that_certifies_bundles_is_tolerated() {
    every_fault_of_a_spreader(Dissemination::ReplicasCertified);
}

fn every_fault_of_a_spreader(dissemination: Dissemination) {
    for (at, fault) in Fault::ALL.into_iter().enumerate() {
        let protocol = ProtocolKind::ALL[at % ProtocolKind::ALL.len()];
        let leader = protocol.leaders()[at % protocol.leaders().len()];
        for faulty in [LEADER, OTHER] {
            let mut spec = spreading(spec(protocol, leader, faulty, fault), dissemination);
            spec.load.duration = 3 * RETRY;
            let report = run(&spec, 1, &commands);
            let case = format!("{fault} of replica {faulty} under {protocol} with {leader} leaders, {dissemination}");
            assert_eq!(report.violation, None, "{case}: {}", report.transcript.join("\n"));
            if delays_its_clients(fault) || promise(protocol, leader, fault).is_ok() {
                let load = report.load.as_ref().expect("the run was completed");
                assert!(
                    load.completed > 0 && load.longest_gap < RETRY + PATIENCE,
                    "{case}: a gap of {:?}",
                    load.longest_gap
                );
            }
        }
    }
}

/// Runs each fault under each kind of leader, at the first leader and at another replica.
fn every_fault(protocol: ProtocolKind) {
    for fault in Fault::ALL.into_iter().filter(|fault| !needs_trouble(fault)) {
        for leader in protocol.leaders() {
            for faulty in [LEADER, OTHER] {
                let spec = spec(protocol, *leader, faulty, fault);
                let report = run(&spec, 1, &commands);
                let case = format!("{fault} of replica {faulty} under {protocol} with {leader} leaders");
                assert_eq!(report.violation, None, "{case}: {}", report.transcript.join("\n"));
                if let Err(why) = promise(protocol, *leader, fault) {
                    println!("{case}: {why}");
                } else {
                    let load = report.load.as_ref().expect("the run was completed");
                    assert!(load.completed > 0, "{case}: no command is ordered");
                    assert!(load.longest_gap < PATIENCE, "{case}: no command is ordered for {:?}", load.longest_gap);
                }
                check_evidence(&report, protocol, *leader, faulty, fault, &case);
            }
        }
    }
}

/// Runs faults of a replica with the lowest latency to all others, under each kind of leader, after views that timed
/// out. The run completes; apart from the usual delay, it loses at most the time in which its leader was partitioned.
fn every_fault_nearby(protocol: ProtocolKind) {
    for fault in worth_more_nearby() {
        for leader in protocol.leaders() {
            if promise(protocol, *leader, fault).is_err() {
                continue;
            }
            let mut spec = nearer(spec(protocol, *leader, NEAR, fault), NEAR);
            spec.load.duration = 3 * PATIENCE;
            let report = run(&spec, 1, &commands);
            let case = format!("{fault} of nearby replica {NEAR} under {protocol} with {leader} leaders");
            assert_eq!(report.violation, None, "{case}: {}", report.transcript.join("\n"));
            let load = report.load.as_ref().expect("the run was completed");
            assert!(load.completed > 0, "{case}: no command is ordered");
            assert!(load.longest_gap < 2 * PATIENCE, "{case}: no command is ordered for {:?}", load.longest_gap);
        }
    }
}

/// Faults that do more harm at a replica with low latency.
fn worth_more_nearby() -> [Fault; 10] {
    let assembles = |views| AssembleCertificate { views }.into();
    [
        assembles(1 << 63),
        assembles(1),
        assembles(0),
        ForgeEvidence.into(),
        StaleCertificate.into(),
        ForgeCertificate.into(),
        WithholdCertificates.into(),
        ShowLate.into(),
        Equivocate.into(),
        Replay.into(),
    ]
}

/// The nearby replica, which leads neither the first nor the second view.
const NEAR: u16 = 3;

/// Returns whether the fault only has an effect if some replica is down and has to fetch a state.
fn needs_trouble(fault: &Fault) -> bool {
    fault.facts().needs == Needs::States
}

/// Maximum delay that one faulty replica may cause: 8 view timeouts of a leader that has committed nothing, with a
/// margin.
const PATIENCE: Duration = Duration::from_millis(20 * world::VIEW_TIMEOUT_MS);

/// Time after which a client turns to another replica.
const RETRY: Duration = Duration::from_millis(DEFAULT_RETRY_MS);

/// Returns whether the fault prevents the ordering of bundles from the faulty replica's clients.
fn delays_its_clients(fault: Fault) -> bool {
    [WithholdBundles.into(), EquivocateBatches.into(), HoardCertificates.into(), Busy.into()].contains(&fault)
}

/// Returns the reason why progress is not guaranteed, if it is not.
fn promise(protocol: ProtocolKind, leader: LeaderKind, fault: Fault) -> Result<(), &'static str> {
    let three_chain = protocol.chain_length() == 3;
    let assembles = fault.name() == AssembleCertificate::FACTS.name;
    let spoils: [Fault; 4] = [Silent.into(), StaleCertificate.into(), ForgeCertificate.into(), ShowLate.into()];
    let fails_its_views = assembles || spoils.contains(&fault);
    match three_chain && leader == LeaderKind::RoundRobin && fails_its_views {
        true => {
            Err("three certified views in a row take four live leaders in a row, and one of the four fails its views")
        }
        false if delays_its_clients(fault) => Err("clients of the faulty replica wait for their retry timeout"),
        false => Ok(()),
    }
}

/// Checks that provable faults are proved, and that only the faulty replica is accused.
fn check_evidence(
    report: &SimReport,
    protocol: ProtocolKind,
    leader: LeaderKind,
    faulty: u16,
    fault: Fault,
    case: &str,
) {
    let honest = report.end.iter().flatten().filter(|status| status.replica.0 != faulty);
    let evidence: Vec<&String> = honest.flat_map(|status| &status.evidence).collect();
    let about = format!("replica {faulty} signed two ");
    assert!(evidence.iter().all(|line| line.starts_with(&about)), "{case}: {evidence:?}");
    // A permanent leader receives only its own votes, and a replica that never leads proposes nothing.
    let leads = faulty == LEADER || leader != LeaderKind::Fixed;
    let is_heard = faulty != LEADER || leader != LeaderKind::Fixed;
    let provable = fault == Equivocate.into() && leads
        || fault == DoubleVote.into() && is_heard
        || fault == Fork.into() && leads && protocol.has_slots();
    assert!(!provable || !evidence.is_empty(), "{case}: one replica received both statements");
    assert!(fault.lies() || evidence.is_empty(), "{case}: no false statement was made, but: {evidence:?}");
}

/// Runs each fault with temporary network faults, after which the honest replicas must make progress within a bounded
/// number of views.
fn every_fault_in_trouble(protocol: ProtocolKind) {
    for fault in Fault::ALL {
        for seed in seeds() {
            let leaders = protocol.leaders();
            let leader = leaders[seed as usize % leaders.len()];
            if promise(protocol, leader, fault).is_err() {
                continue;
            }
            let spec = world::troubled(spec(protocol, leader, (seed % 4) as u16, fault));
            let report = run(&spec, seed, &commands);
            let case = format!("{fault} of replica {} under {protocol} with {leader} leaders, seed {seed}", seed % 4);
            assert_eq!(report.violation, None, "{case}: {}", report.transcript.join("\n"));
        }
    }
}
