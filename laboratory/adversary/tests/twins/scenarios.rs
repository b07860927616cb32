//! Tests scenarios of all protocols: with the tolerated number of faults they are safe and live; with more they are
//! not, and the checker detects it.

use quorate_adversary::twins::play::{Player, player, replay};
use quorate_adversary::twins::run::{Choice, Outcome, Shard, Source, run};
use quorate_adversary::twins::shrink::{shrink, steps};
use quorate_adversary::twins::{Participants, Property, Shape, Space, Verdict};
use quorate_consensus::Protocol;
use quorate_consensus::config::{Dissemination, ProtocolKind};
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_types::Quorum;

const THREADS: usize = 2;

fn space(replicas: usize, twins: usize, partitions: usize, rounds: usize, one_way: bool) -> Space {
    let participants = Participants::new(Quorum::of(replicas).expect("the size is sound"), twins);
    Space::new(Shape { participants, partitions, rounds, one_way, pruned: true }).expect("it can be counted")
}

fn sample(protocol: ProtocolKind, space: &Space, scenarios: u64, seed: u64) -> Outcome {
    run(protocol, &Source::Space(space, Choice::Sample { scenarios, seed }), Shard::WHOLE, THREADS, &|_| ())
}

fn assert_sound(protocol: ProtocolKind, outcome: &Outcome) {
    let first = outcome.findings.first();
    assert_eq!((outcome.unsafe_scenarios, outcome.stalled), (0, 0), "{protocol}: the first is {first:?}");
}

#[test]
fn one_twin_among_four_violates_nothing() {
    for protocol in ProtocolKind::ALL {
        assert_sound(*protocol, &sample(*protocol, &space(4, 1, 2, 7, false), 2000, 1));
    }
}

#[test]
fn one_twin_among_four_violates_nothing_with_three_partitions_and_one_way_links() {
    for protocol in ProtocolKind::ALL {
        assert_sound(*protocol, &sample(*protocol, &space(4, 1, 3, 6, true), 1000, 2));
    }
}

#[test]
fn two_twins_among_seven_violate_nothing() {
    for protocol in ProtocolKind::ALL {
        assert_sound(*protocol, &sample(*protocol, &space(7, 2, 2, 5, false), 200, 3));
    }
}

/// Replicas spread bundles, and twins acknowledge batches for each other. Batches that no quorum acknowledges advance
/// the clock far beyond the views of the script.
#[test]
fn one_twin_that_certifies_bundles_violates_nothing() {
    struct Sample<'a>(ProtocolKind, &'a Source<'a>);
    impl ForProtocol for Sample<'_> {
        type Output = Vec<Verdict>;
        fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Vec<Verdict> {
            let mut player = Player::new(self.0, make).disseminate(Dissemination::ReplicasCertified);
            self.1.part(Shard::WHOLE).map(|scenario| player.play(&scenario)).collect()
        }
    }
    let space = space(4, 1, 2, 7, false);
    let source = Source::Space(&space, Choice::Sample { scenarios: 300, seed: 5 });
    for protocol in ProtocolKind::ALL {
        let verdicts = for_protocol(*protocol, Sample(*protocol, &source));
        assert_eq!(verdicts.len(), 300);
        let first = verdicts.iter().find_map(Verdict::violation);
        assert_eq!(first, None, "{protocol}");
    }
}

/// All replicas are honest, which makes the oracle stricter.
#[test]
fn partitions_alone_violate_nothing() {
    for protocol in ProtocolKind::ALL {
        assert_sound(*protocol, &sample(*protocol, &space(4, 0, 2, 8, true), 1000, 4));
    }
}

/// Two twins among four replicas are one fault more than a protocol tolerates: nothing is guaranteed, and the checker
/// must detect a violation.
#[test]
fn more_twins_than_faults_are_found_unsafe_under_every_protocol() {
    for protocol in ProtocolKind::ALL {
        let outcome = sample(*protocol, &space(4, 2, 2, 7, false), 4000, 1);
        assert!(outcome.unsafe_scenarios > 0, "{protocol}: two chains are not detected");
        let first = outcome.findings.iter().find(|finding| !finding.stalled).expect("it is among the findings");
        assert_eq!(first.violation.property, Property::Agreement, "{protocol}");
    }
}

#[test]
fn a_replay_shows_the_same_violation_as_the_run() {
    for protocol in ProtocolKind::ALL {
        let space = space(4, 2, 2, 6, false);
        let source = Source::Space(&space, Choice::Sample { scenarios: 300, seed: 9 });
        let mut play = player(*protocol);
        for scenario in source.part(Shard::WHOLE) {
            let verdict = play(&scenario);
            let (again, transcript) = replay(*protocol, &scenario);
            assert_eq!(again, verdict, "{protocol}: {scenario:?}");
            assert!(transcript.starts_with("view 1: leader R"), "{transcript}");
            if let Verdict::Unsafe(violation) = &verdict {
                assert!(violation.property != Property::Agreement || transcript.contains("COMMITS"), "{transcript}");
            }
        }
    }
}

#[test]
fn a_shrunk_scenario_is_minimal_and_still_unsafe() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::BasicHotStuff, ProtocolKind::Pbft] {
        let outcome = sample(protocol, &space(4, 2, 3, 7, true), 3000, 5);
        let first = outcome.findings.iter().find(|finding| !finding.stalled).expect("something is unsafe");
        let mut play = player(protocol);
        let mut is_unsafe =
            |scenario: &_| matches!(play(scenario), Verdict::Unsafe(found) if found.property == Property::Agreement);
        let simplest = shrink(&first.scenario, &mut is_unsafe);
        assert!(is_unsafe(&simplest), "{protocol}");
        assert!(!steps(&simplest).any(|simpler| is_unsafe(&simpler)), "{protocol}: {simplest:?} can be simpler");
        assert!(simplest.rounds.len() <= first.scenario.rounds.len());
        assert_eq!(simplest.participants.twins(), 2, "{protocol}: with one twin it would be safe");
    }
}

#[test]
fn results_depend_on_neither_threads_nor_parts() {
    let space = space(4, 2, 2, 5, false);
    let source = Source::Space(&space, Choice::Sample { scenarios: 1500, seed: 7 });
    let with = |threads, shard| run(ProtocolKind::BasicHotStuff, &source, shard, threads, &|_| ());
    let whole = with(1, Shard::WHOLE);
    assert!(whole.unsafe_scenarios > 0);
    assert_eq!(with(3, Shard::WHOLE), whole);
    let mut parts: Vec<Outcome> = (1..=4).map(|index| with(2, Shard { index, of: 4 })).collect();
    let sum = |of: fn(&Outcome) -> u64| parts.iter().map(of).sum::<u64>();
    assert_eq!(sum(|part| part.scenarios), 1500);
    assert_eq!(sum(|part| part.unsafe_scenarios), whole.unsafe_scenarios);
    assert_eq!(sum(|part| part.stalled), whole.stalled);
    let mut findings: Vec<_> = parts.iter_mut().flat_map(|part| part.findings.drain(..)).collect();
    findings.sort_by_key(|finding| finding.number);
    assert_eq!(findings, whole.findings);
}

#[test]
fn samples_are_uniform_and_depend_only_on_the_seed() {
    let space = space(3, 1, 2, 1, false);
    let (all, drawn) = (space.count() as usize, 40_000);
    let draw =
        |seed| Source::Space(&space, Choice::Sample { scenarios: drawn, seed }).part(Shard::WHOLE).collect::<Vec<_>>();
    let (sample, listed) = (draw(1), (0..all as u128).map(|number| space.scenario(number)).collect::<Vec<_>>());
    assert_eq!(sample, draw(1));
    assert_ne!(sample, draw(2));
    let expected = drawn as f64 / all as f64;
    // Six standard deviations of a binomial count.
    let tolerance = 6.0 * (expected * (1.0 - 1.0 / all as f64)).sqrt();
    for scenario in &listed {
        let found = sample.iter().filter(|drawn| *drawn == scenario).count() as f64;
        assert!((found - expected).abs() < tolerance, "{found} of {expected:.0} expected draws of {scenario:?}");
    }
}
