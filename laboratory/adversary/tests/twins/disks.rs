//! Tests scenarios in which replicas restart, and lose their disks in turn: no scenario is unsafe, and after the
//! network heals all replicas execute commands and vote again.

use quorate_adversary::twins::play::{Player, replay};
use quorate_adversary::twins::run::{Choice, Shard, Source};
use quorate_adversary::twins::shrink::shrink;
use quorate_adversary::twins::{Entry, Participants, Round, Scenario, Shape, Space, Verdict};
use quorate_consensus::Protocol;
use quorate_consensus::config::{Dissemination, ProtocolKind};
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_types::{Quorum, ReplicaId};

/// Numbers of replicas, twins and rounds.
type Size = (usize, usize, usize);

fn space((replicas, twins, rounds): Size, one_way: bool) -> Space {
    let participants = Participants::new(Quorum::of(replicas).expect("the size is sound"), twins);
    Space::new(Shape { participants, partitions: 2, rounds, one_way, pruned: true }).expect("it can be counted")
}

struct Sample {
    protocol: ProtocolKind,
    size: Size,
    one_way: bool,
    scenarios: u64,
    seed: u64,
    dissemination: Dissemination,
}

impl Sample {
    fn of(protocol: ProtocolKind, size: Size, scenarios: u64, seed: u64) -> Sample {
        Sample { protocol, size, one_way: false, scenarios, seed, dissemination: Dissemination::Client }
    }

    /// Returns the first scenario with a violation, as a line of a scenario file.
    fn first(self) -> Option<(String, Verdict)> {
        for_protocol(self.protocol, self)
    }
}

impl ForProtocol for Sample {
    type Output = Option<(String, Verdict)>;
    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Self::Output {
        let mut player = Player::new(self.protocol, make).disseminate(self.dissemination);
        let space = space(self.size, self.one_way);
        let choice = Choice::SampleLosingDisks { scenarios: self.scenarios, seed: self.seed };
        Source::Space(&space, choice).part(Shard::WHOLE).find_map(|scenario| {
            let verdict = player.play(&scenario);
            let entry = Entry { protocol: Some(self.protocol), ..Entry::from(scenario) };
            (verdict != Verdict::Safe).then(|| (entry.to_line(), verdict))
        })
    }
}

#[test]
fn disks_lost_in_turn_violate_nothing() {
    let samples: [(Size, u64); 4] = [((4, 0, 10), 300), ((4, 0, 20), 300), ((7, 0, 10), 60), ((7, 1, 10), 60)];
    for protocol in ProtocolKind::ALL.iter().copied() {
        for ((size, scenarios), seed) in samples.into_iter().zip(1..) {
            let first = Sample::of(protocol, size, scenarios, seed).first();
            assert_eq!(first, None, "{protocol}, {size:?}");
        }
    }
}

#[test]
fn disks_lost_in_turn_beside_one_way_links_violate_nothing() {
    for protocol in ProtocolKind::ALL.iter().copied() {
        let first = Sample { one_way: true, ..Sample::of(protocol, (4, 0, 14), 200, 5) }.first();
        assert_eq!(first, None, "{protocol}");
    }
}

#[test]
fn disks_lost_in_turn_lose_no_certified_bundle() {
    for protocol in ProtocolKind::ALL.iter().copied() {
        for ((size, scenarios), seed) in [((4, 0, 12), 100), ((7, 1, 10), 20)].into_iter().zip(6..) {
            let sample = Sample::of(protocol, size, scenarios, seed);
            let first = Sample { dissemination: Dissemination::ReplicasCertified, ..sample }.first();
            assert_eq!(first, None, "{protocol}, {size:?}");
        }
    }
}

/// Lost disks are drawn in addition: leaders and groups are the same as in the sample without them.
#[test]
fn lost_disks_change_nothing_else_in_a_sample() {
    let space = space((7, 1, 8), false);
    let (scenarios, seed) = (300, 11);
    let without: Vec<Scenario> = Source::Space(&space, Choice::Sample { scenarios, seed }).part(Shard::WHOLE).collect();
    let with: Vec<Scenario> =
        Source::Space(&space, Choice::SampleLosingDisks { scenarios, seed }).part(Shard::WHOLE).collect();
    let (mut lost, mut restarted) = (0, 0);
    for (with, without) in with.iter().zip(&without) {
        for round in &with.rounds {
            assert!(
                round.lost_disks & round.restarts == 0 && (round.lost_disks | round.restarts) & 1 == 0,
                "R0 is a twin"
            );
            lost |= round.lost_disks;
            restarted |= round.restarts;
        }
        let strip = |round: &Round| Round { restarts: 0, lost_disks: 0, ..round.clone() };
        assert_eq!(with.rounds.iter().map(strip).collect::<Vec<_>>(), without.rounds);
    }
    assert_eq!((lost, restarted), (0b111_1110, 0b111_1110), "each honest replica loses its disk, and restarts");
}

fn scenario(rounds: &[(&str, &str)]) -> Scenario {
    let round = |(groups, restarting): &(&str, &str)| format!(r#"{{"leader":"R0","groups":{groups}{restarting}}}"#);
    let rounds = rounds.iter().map(round).collect::<Vec<_>>().join(",");
    Entry::from_line(&format!(r#"{{"replicas":4,"rounds":[{rounds}]}}"#)).expect("it is one").scenario
}

const ALL: &str = r#"[["R0","R1","R2","R3"]]"#;
const WITHOUT_R3: &str = r#"[["R0","R1","R2"],["R3"]]"#;

/// A disk is lost only after the previous victim votes again.
#[test]
fn a_disk_is_kept_while_another_is_lost() {
    for protocol in ProtocolKind::ALL.iter().copied() {
        let script = scenario(&[
            (ALL, ""),
            (WITHOUT_R3, r#","lost_disks":["R3"]"#),
            (WITHOUT_R3, r#","lost_disks":["R2"],"restarts":["R1"]"#),
            (ALL, r#","restarts":["R3"]"#),
            (ALL, ""),
            (ALL, ""),
            (ALL, ""),
            (ALL, r#","lost_disks":["R2"]"#),
        ]);
        let (verdict, transcript) = replay(protocol, &script);
        assert_eq!(verdict, Verdict::Safe, "{protocol}:\n{transcript}");
        let views: Vec<&str> = transcript.split("\n\n").collect();
        let says = |view: usize, words: &str| views[view - 1].contains(words);
        assert!(says(2, "  R3   LOSES ITS DISK"), "{protocol}: {}", views[1]);
        assert!(says(3, "  R2   keeps its disk: R3 does not vote"), "{protocol}: {}", views[2]);
        assert!(says(3, "  R1   RESTARTS with"), "{protocol}: {}", views[2]);
        assert!(says(8, "  R2   LOSES ITS DISK"), "{protocol}: {}", views[7]);
    }
}

/// Each step of the shrinker removes a restart, or keeps a disk.
#[test]
fn a_scenario_shrinks_to_the_disk_that_matters() {
    let space = space((4, 0, 10), false);
    let source = Source::Space(&space, Choice::SampleLosingDisks { scenarios: 50, seed: 3 });
    let loses = |scenario: &Scenario, replica: ReplicaId| {
        scenario.rounds.iter().any(|round| round.lost_disks >> replica.index() & 1 == 1)
    };
    let mut shrunk = 0;
    for scenario in source.part(Shard::WHOLE).filter(|scenario| loses(scenario, ReplicaId(2))) {
        let simplest = shrink(&scenario, |simpler| loses(simpler, ReplicaId(2)));
        let [round] = &simplest.rounds[..] else { panic!("{simplest:?}") };
        assert_eq!((round.lost_disks, round.restarts), (0b100, 0));
        let restarting = shrink(&scenario, |simpler| {
            simpler.rounds.iter().any(|round| (round.lost_disks | round.restarts) >> 2 & 1 == 1)
        });
        assert_eq!((restarting.rounds[0].lost_disks, restarting.rounds.len()), (0, 1), "{restarting:?}");
        shrunk += 1;
    }
    assert!(shrunk > 0);
}

/// R1, R2 and R3 learn the certificate of view 3, execute block 2, and sign that state in view 4, before they vote
/// again. Two of them restart, and one loses its disk: none has the certificate any more, so none may be locked on its
/// block.
#[test]
fn no_lock_outlives_its_certificate() {
    let line = r#"{"replicas":4,"twins":0,"rounds":[{"leader":"R0","groups":[["R0","R1","R2","R3"]]},{"leader":"R0","groups":[["R0","R1","R2","R3"]]},{"leader":"R2","groups":[["R0"],["R1","R2","R3"]]},{"leader":"R0","groups":[["R0","R1","R3"],["R2"]],"restarts":["R2"]},{"leader":"R0","groups":[["R0","R1","R2","R3"]],"restarts":["R1"],"lost_disks":["R3"]}]}"#;
    struct Once(ProtocolKind, Scenario, Dissemination);
    impl ForProtocol for Once {
        type Output = (Verdict, String);
        fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Self::Output {
            Player::new(self.0, make).disseminate(self.2).replay(&self.1)
        }
    }
    for protocol in ProtocolKind::ALL.iter().copied() {
        for dissemination in Dissemination::ALL.iter().copied() {
            let scenario = Entry::from_line(line).expect("it is one").scenario;
            let (verdict, transcript) = for_protocol(protocol, Once(protocol, scenario, dissemination));
            assert_eq!(verdict, Verdict::Safe, "{protocol}, {dissemination}:\n{transcript}");
        }
    }
}
