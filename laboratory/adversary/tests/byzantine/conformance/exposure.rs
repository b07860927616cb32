//! A run of each fault exhibits the exposure that its kind declares.

use super::world::{LEADER, commands, spec};
use quorate_adversary::byzantine::{Exposure, Fault, Needs};
use quorate_consensus::config::{LeaderKind, ProtocolKind};
use quorate_consensus::seam::Drop;
use quorate_simulator::{SimReport, run};

/// Reasons that never apply to the messages of an honest replica whose clock is right.
const OF_LIARS: [Drop; 8] = [
    Drop::NotGenuine,
    Drop::NotTheSender,
    Drop::Contradiction,
    Drop::Malformed,
    Drop::TooFarAhead,
    Drop::ViewNotJustified,
    Drop::TimeAhead,
    Drop::TimeBehind,
];

/// Observation of a cluster whose first leader may be faulty.
struct Seen {
    has_evidence: bool,
    drops: u64,
    /// Bundles with which clients turned to other replicas, before their retry timeout.
    refused: u64,
    view_timeouts: u64,
    longest_gap_us: u128,
    completed: u64,
}

fn seen(report: &SimReport) -> Seen {
    let honest = || report.end.iter().flatten().filter(|status| status.replica.0 != LEADER);
    let dropped = |why: &Drop| {
        let name = why.to_string();
        honest().filter_map(|status| status.dropped.get(name.as_str())).sum::<u64>()
    };
    let load = report.load.as_ref().expect("the run was completed");
    Seen {
        has_evidence: honest().any(|status| !status.evidence.is_empty()),
        drops: OF_LIARS.iter().map(dropped).sum(),
        refused: load.bundles.retries,
        view_timeouts: honest().map(|status| status.view_timeouts).max().unwrap_or(0),
        longest_gap_us: load.longest_gap.as_micros(),
        completed: load.completed,
    }
}

/// Returns the strongest sign of a fault, compared with an honest cluster under the same load.
fn exposure(honest: &Seen, faulty: &Seen) -> Exposure {
    let takes_longer = faulty.view_timeouts > honest.view_timeouts
        || faulty.longest_gap_us > 2 * honest.longest_gap_us
        || faulty.completed * 10 < honest.completed * 9;
    match faulty {
        Seen { has_evidence: true, .. } => Exposure::Evidence,
        Seen { drops: 1.., .. } => Exposure::Drops,
        Seen { refused: 1.., .. } => Exposure::Refusals,
        _ if takes_longer => Exposure::Delays,
        _ => Exposure::Nothing,
    }
}

/// Tested at a rotating leader under Jolteon, and at the primary of PBFT. Without the faults that need requesting
/// replicas; `simulator state_transfer` shows the drops that two of them cause.
#[test]
fn every_fault_is_exposed_by_what_its_kind_declares() {
    let clusters = [(ProtocolKind::Jolteon, LeaderKind::RoundRobin), (ProtocolKind::Pbft, LeaderKind::Fixed)];
    let needs_questions = |fault: &Fault| matches!(fault.facts().needs, Needs::Questions | Needs::States);
    for fault in Fault::ALL.into_iter().filter(|fault| !needs_questions(fault)) {
        let exposed = clusters.map(|(protocol, leader)| {
            let faulty = spec(protocol, leader, LEADER, fault);
            let mut honest = faulty.clone();
            honest.network.faults.clear();
            let [honest, faulty] = [honest, faulty].map(|spec| seen(&run(&spec, 1, &commands)));
            assert!(!honest.has_evidence && honest.drops == 0 && honest.refused == 0, "{protocol}: nobody is faulty");
            exposure(&honest, &faulty)
        });
        let [one, other] = exposed;
        assert_eq!(one.max(other), fault.facts().exposed_by, "{fault}: {exposed:?}");
    }
}
