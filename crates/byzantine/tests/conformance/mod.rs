//! Every behaviour under every protocol, in the simulator: nobody honest disagrees or is accused, and where the protocol promises it the
//! cluster goes on.

mod voted_out;
mod world;

use quorate_byzantine::Fault;
use quorate_consensus::config::{LeaderKind, ProtocolKind};
use quorate_simulator::{SimReport, run};
use std::time::Duration;
use world::{LEADER, OTHER, commands, nearer, seeds, spec, two_of_seven};

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

/// As many as may be faulty, in different ways at the same time, the first leader among them: nobody honest disagrees.
#[test]
fn two_of_seven_break_nothing() {
    for (number, protocol) in ProtocolKind::ALL.iter().enumerate() {
        for (at, one) in Fault::ALL.into_iter().enumerate() {
            let other = Fault::ALL[(at + 1 + number) % Fault::ALL.len()];
            let leader = protocol.leaders()[at % protocol.leaders().len()];
            let spec = two_of_seven(spec(*protocol, leader, LEADER, one), other);
            let report = run(&spec, 1, &commands);
            let case = format!("{one} of replica 0 and {other} of replica 1 under {protocol} with {leader} leaders");
            assert_eq!(report.complaint, None, "{case}: {}", report.transcript.join("\n"));
            let honest = report.end.iter().flatten().filter(|status| status.replica.0 > OTHER);
            let evidence: Vec<&String> = honest.flat_map(|status| &status.evidence).collect();
            let about_them = |line: &&String| ["replica 0 ", "replica 1 "].iter().any(|them| line.starts_with(them));
            assert!(evidence.iter().all(about_them), "{case}: {evidence:?}");
        }
    }
}

/// Each fault under each kind of leader, of the first leader and of somebody else.
fn every_fault(protocol: ProtocolKind) {
    for fault in Fault::ALL.into_iter().filter(|fault| !needs_trouble(fault)) {
        for leader in protocol.leaders() {
            for faulty in [LEADER, OTHER] {
                let spec = spec(protocol, *leader, faulty, fault);
                let report = run(&spec, 1, &commands);
                let case = format!("{fault} of replica {faulty} under {protocol} with {leader} leaders");
                assert_eq!(report.complaint, None, "{case}: {}", report.transcript.join("\n"));
                if let Err(why) = promise(protocol, *leader, fault) {
                    println!("{case}: {why}");
                } else {
                    let load = report.load.as_ref().expect("the run came to its end");
                    assert!(load.completed > 0, "{case}: nothing is ordered");
                    assert!(load.longest_gap < PATIENCE, "{case}: nothing is ordered for {:?}", load.longest_gap);
                }
                check_evidence(&report, protocol, *leader, faulty, fault, &case);
            }
        }
    }
}

/// Faults under each kind of leader, of a replica that hears everything first and is heard first, after views that timed out. It
/// goes on to the end, and so does the cluster; what it may lose on top of the usual is the time in which its leader was cut off.
fn every_fault_nearby(protocol: ProtocolKind) {
    for fault in WORTH_MORE_NEARBY {
        for leader in protocol.leaders() {
            if promise(protocol, *leader, fault).is_err() {
                continue;
            }
            let mut spec = nearer(spec(protocol, *leader, NEAR, fault), NEAR);
            spec.load.duration = 3 * PATIENCE;
            let report = run(&spec, 1, &commands);
            let case = format!("{fault} of replica {NEAR}, who is near, under {protocol} with {leader} leaders");
            assert_eq!(report.complaint, None, "{case}: {}", report.transcript.join("\n"));
            let load = report.load.as_ref().expect("the run came to its end");
            assert!(load.completed > 0, "{case}: nothing is ordered");
            assert!(load.longest_gap < 2 * PATIENCE, "{case}: nothing is ordered for {:?}", load.longest_gap);
        }
    }
}

/// What is worth more to one who hears everything first and is heard first.
const WORTH_MORE_NEARBY: [Fault; 9] = [
    Fault::AssembleCertificate { views: 1 << 63 },
    Fault::AssembleCertificate { views: 1 },
    Fault::AssembleCertificate { views: 0 },
    Fault::ForgeEvidence,
    Fault::StaleCertificate,
    Fault::ForgeCertificate,
    Fault::WithholdCertificates,
    Fault::Equivocate,
    Fault::Replay,
];

/// Who is near: it leads neither first nor second.
const NEAR: u16 = 3;

/// Without trouble nobody is away, and nobody fetches a state.
fn needs_trouble(fault: &Fault) -> bool {
    matches!(fault, Fault::ForgeState | Fault::StallState | Fault::RepeatOffers)
}

/// The longest time that one faulty replica may hold a cluster up: 8 view timeouts of a leader who has nothing committed, and some more.
const PATIENCE: Duration = Duration::from_millis(20 * world::VIEW_TIMEOUT_MS);

/// Why progress is not promised, if it is not.
fn promise(protocol: ProtocolKind, leader: LeaderKind, fault: Fault) -> Result<(), &'static str> {
    let three_chain = protocol.chain_length() == 3;
    let fails_its_views = matches!(
        fault,
        Fault::Silent | Fault::StaleCertificate | Fault::ForgeCertificate | Fault::AssembleCertificate { .. }
    );
    match three_chain && leader == LeaderKind::RoundRobin && fails_its_views {
        true => {
            Err("three certified views in a row take four live leaders in a row, and one of the four fails its views")
        }
        false => Ok(()),
    }
}

/// What can be proven is proven, and of nobody else.
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
    // A leader for good hears its own votes only, and who never leads proposes nothing.
    let leads = faulty == LEADER || leader != LeaderKind::Fixed;
    let is_heard = faulty != LEADER || leader != LeaderKind::Fixed;
    let provable = match fault {
        Fault::Equivocate => leads,
        Fault::DoubleVote => is_heard,
        Fault::Fork => leads && protocol.has_slots(),
        _ => false,
    };
    assert!(!provable || !evidence.is_empty(), "{case}: the two statements were heard by one replica");
    assert!(fault.lies() || evidence.is_empty(), "{case}: nothing false was said, and yet: {evidence:?}");
}

/// The same with trouble in the network on top, and then peace: the honest replicas have to make progress within a bound of views.
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
            assert_eq!(report.complaint, None, "{case}: {}", report.transcript.join("\n"));
        }
    }
}
