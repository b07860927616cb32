//! Faults drawn from a seed, then healing: replicas agree, and the healed core makes progress.

use crate::common::{commands, spec};
use quorate_adversary::byzantine::behaviours::Silent;
use quorate_client::load::LoadMode;
use quorate_consensus::config::{Dissemination, LeaderKind, ProtocolKind};
use quorate_simulator::chaos::unequal_links;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::{NetworkSpec, Property, run};
use std::time::Duration;

/// Number of seeds per protocol; `QUORATE_SIM_SEEDS=<count>` runs more, and `QUORATE_SIM_SEED=<seed>` only one.
const SEEDS: u64 = 6;
const CERTIFYING_SEEDS: u64 = 3;

#[test]
fn every_protocol_survives_chaos() {
    survive_chaos(Dissemination::Client, SEEDS);
}

/// Replicas crash between their acknowledgements and the blocks that rely on them.
#[test]
fn replicas_that_certify_bundles_survive_chaos() {
    survive_chaos(Dissemination::ReplicasCertified, CERTIFYING_SEEDS);
}

fn survive_chaos(dissemination: Dissemination, seeds: u64) {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let chosen = match number("QUORATE_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("QUORATE_SIM_SEEDS").unwrap_or(seeds),
    };
    for protocol in ProtocolKind::ALL {
        for seed in chosen.clone() {
            let mut spec = spec(*protocol);
            spec.consensus.dissemination = dissemination;
            spec.consensus.view_timeout_ms = 100;
            spec.consensus.leader = protocol.leaders()[seed as usize % protocol.leaders().len()];
            spec.chaos = Some(Duration::from_secs(2));
            spec.load.duration = Duration::from_secs(3600);
            spec.load.drain = Duration::ZERO;
            spec.load.mode = LoadMode::Open { rate: 2000.0, max_outstanding: 100_000 };
            // A replica that is down for long must fetch a state.
            (spec.consensus.checkpoint_interval, spec.consensus.window) = (10, 40);
            (spec.consensus.retained_blocks, spec.consensus.retained_bytes) = (60, 1 << 20);
            let report = run(&spec, seed, &commands);
            let said = report.transcript.join("\n");
            assert_eq!(
                report.violation, None,
                "{protocol} {dissemination} seed {seed} ({:?})\n{said}",
                spec.consensus.leader
            );
            assert!(report.virtual_time >= Duration::from_secs(2));
        }
    }
}

/// A crash or a pause may occur while a replica is preempted, or between two of its writes.
#[test]
fn threads_that_take_cores_from_each_other_survive_chaos() {
    for (protocol, seed) in
        [ProtocolKind::Jolteon, ProtocolKind::Pbft].into_iter().flat_map(|kind| [(kind, 1), (kind, 4)])
    {
        let mut spec = spec(protocol);
        spec.consensus.view_timeout_ms = 100;
        spec.chaos = Some(Duration::from_secs(1));
        spec.load.duration = Duration::from_secs(3600);
        spec.load.drain = Duration::ZERO;
        spec.load.mode = LoadMode::Open { rate: 2000.0, max_outstanding: 100_000 };
        spec.cores = 2;
        (spec.costs.scheduler.slice_us, spec.costs.scheduler.preempts) = (4_000.0, true);
        (spec.costs.core.wake_us, spec.costs.client.late_us) = (10.0, 50.0);
        let report = run(&spec, seed, &commands);
        assert_eq!(report.violation, None, "{protocol} seed {seed}\n{}", report.transcript.join("\n"));
        assert_eq!(report.trace_hash, run(&spec, seed, &commands).trace_hash, "the seed decides everything");
    }
}

/// A third of the seeds have links with unequal delays over a wide range; the others have none.
#[test]
fn a_third_of_the_seeds_have_unequal_links() {
    let network = NetworkSpec::default();
    let links = |seed| unequal_links(seed, &network, 4, Duration::from_millis(100));
    let (mut near, mut far) = (f64::MAX, 0.0f64);
    for seed in 0..60 {
        let links = links(seed);
        assert_eq!(links.len(), if seed % 3 == 2 { 12 } else { 0 }, "seed {seed}");
        let delays = || links.iter().filter_map(|link| link.delay_ms);
        assert!(links.is_empty() || delays().any(|delay| Some(delay) != links[0].delay_ms), "seed {seed}: {links:?}");
        near = delays().fold(near, f64::min);
        far = delays().fold(far, f64::max);
    }
    assert!(near < 0.02 && (4.0..12.5).contains(&far), "from {near} to {far} ms");
    let given = NetworkSpec { links: links(2), ..NetworkSpec::default() };
    assert_eq!(unequal_links(5, &given, 4, Duration::from_millis(100)), [], "links of a network file are kept");
}

/// Three successive certified views need four successive live leaders. With one silent leader in a rotation of four,
/// nothing ever commits, and states recur every fourth view.
#[test]
fn a_livelock_is_reported_as_a_lasso() {
    let mut spec = spec(ProtocolKind::ChainedHotStuff);
    spec.consensus.view_timeout_ms = 100;
    spec.consensus.leader = LeaderKind::RoundRobin;
    spec.network.faults = vec![FaultSpec::misbehave(0.0, 1, Silent)];
    spec.network.heal_at_ms = Some(100.0);
    spec.load.duration = Duration::from_secs(3600);
    let violation = run(&spec, 1, &commands).violation.expect("there is no progress");
    assert_eq!(violation.property, Property::Liveness);
    assert!(violation.what.contains("a lasso: in view "), "{}", violation.what);
}

/// The liveness check can fail: with two of four replicas silent, nothing can be ordered.
#[test]
fn a_core_without_a_quorum_violates_liveness() {
    let mut spec = spec(ProtocolKind::Jolteon);
    spec.consensus.view_timeout_ms = 100;
    let silent = |replica| FaultSpec::misbehave(0.0, replica, Silent);
    spec.network.faults = vec![silent(1), silent(2)];
    spec.chaos = Some(Duration::from_millis(200));
    spec.load.duration = Duration::from_secs(3600);
    let report = run(&spec, 1, &commands);
    assert_eq!(report.violation.map(|violation| violation.property), Some(Property::Liveness));
    assert!(!report.transcript.is_empty(), "a failing seed has a transcript");
}
