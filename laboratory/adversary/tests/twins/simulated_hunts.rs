//! Hunts of the simulator that find a bug in replicas that have it, and none in others.

use crate::simulated::{Having, commands, spec};
use quorate_adversary::byzantine::behaviours::Silent;
use quorate_client::load::LoadMode;
use quorate_consensus::config::{LeaderKind, ProtocolKind};
use quorate_consensus::mutants::Bug;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::hostile::Hostility;
use quorate_simulator::{Property, SimSpec, Violation, run, run_altered};
use std::ops::Range;
use std::time::Duration;

/// Longer than any run.
const LONG_MS: f64 = 10_000.0;

/// Returns the first seed with a violation in replicas with a bug, after checking that replicas without it pass.
fn first(spec: &SimSpec, seeds: Range<u64>, bug: Bug, case: &str) -> Option<(u64, Violation)> {
    let found = seeds.clone().find_map(|seed| Some((seed, run_altered(spec, seed, &commands, Having(bug)).violation?)));
    let played = found.as_ref().map_or(seeds.end, |(seed, _)| seed + 1);
    for seed in seeds.start..played {
        let report = run(spec, seed, &commands);
        assert_eq!(report.violation, None, "{case}, seed {seed}: {}", report.transcript.join("\n"));
    }
    found
}

/// Honest clients always have waiting bundles, next to a client that sends each leader different bundles. Blocks hold
/// few commands, and leaders change often.
#[test]
fn a_link_that_pays_for_other_leaders_blocks_is_found_by_the_share() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::ChainedHotStuff, ProtocolKind::SimpleMoonshot] {
        let mut spec = spec(protocol, 0, Silent);
        (spec.consensus.leader, spec.consensus.view_timeout_ms) = (LeaderKind::RoundRobin, 20);
        spec.consensus.batch = 8.into();
        (spec.load.mode, spec.load.bundle) = (LoadMode::Closed { outstanding: 2000 }, 1);
        spec.load.duration = Duration::from_millis(600);
        let client = Hostility::LeaderOnly;
        let hostile =
            FaultSpec::Hostile { at_ms: 0.0, for_ms: LONG_MS, client, shares_link: false, within_ms: LONG_MS };
        spec.network.faults = vec![hostile];
        let case = format!("leader-only under {protocol}");
        let (_, violation) = first(&spec, 1..2, Bug::ChargedForOthers, &case).unwrap_or_else(|| panic!("{case}"));
        assert_eq!(violation.property, Property::Served, "{case}: {}", violation.what);
    }
}
