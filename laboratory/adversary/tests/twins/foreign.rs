//! Scenarios in the formats of other implementations of Twins.

use proptest::prelude::*;
use quorate_adversary::twins::foreign::{FileFormat, format, parse};
use quorate_adversary::twins::run::{Choice, Shard, Source};
use quorate_adversary::twins::{Entry, Participants, Scenario, Shape, Space};
use quorate_types::Quorum;

/// As `hotstuff twins generate` writes it: replica 1 is a twin, so its instances have the twin IDs 1 and 2.
const RELAB: &str = r#"{
	"num_nodes": 4,
	"num_twins": 1,
	"partitions": 2,
	"views": 2,
	"ticks": 100,
	"shuffle": false,
	"seed": 0,
	"scenarios": [
		[{"leader":1,"partitions":[[{"ReplicaID":1,"TwinID":1},{"ReplicaID":2,"TwinID":0}],[{"ReplicaID":1,"TwinID":2},{"ReplicaID":3,"TwinID":0},{"ReplicaID":4,"TwinID":0}],[]]},
		 {"leader":3,"partitions":[]}]
	]
}"#;

/// As DiemBFT's executor reads it: instance 4 is the second one of node 0.
const DIEM: &str = r#"{"num_of_nodes": 4, "num_of_twins": 1, "scenarios": [
    {"round_leaders": {"1": 4, "2": 2}, "round_partitions": {"1": [[0, 1], [4, 2, 3]], "3": [[0, 1, 2, 4], [3]]}}
]}"#;

fn lines(scenarios: Vec<Scenario>) -> Vec<String> {
    scenarios.into_iter().map(|scenario| Entry::from(scenario).to_line()).collect()
}

#[test]
fn a_file_of_relab_is_understood() {
    let scenarios = parse(RELAB, FileFormat::Relab).expect("it is sound");
    assert_eq!(
        lines(scenarios),
        [
            r#"{"replicas":4,"twins":1,"rounds":[{"leader":"R0","groups":[["R0","R1"],["R2","R3","R0'"]]},{"leader":"R2","groups":[]}]}"#
        ]
    );
}

#[test]
fn a_file_of_diem_is_understood_and_lacks_nothing_in_rounds_that_it_leaves_out() {
    let scenarios = parse(DIEM, FileFormat::Diem).expect("it is sound");
    assert_eq!(
        lines(scenarios),
        [concat!(
            r#"{"replicas":4,"twins":1,"rounds":[{"leader":"R0","groups":[["R0","R1"],["R2","R3","R0'"]]},"#,
            r#"{"leader":"R2","groups":[["R0","R1","R2","R3","R0'"]]},"#,
            r#"{"leader":"R0","groups":[["R0","R1","R2","R0'"],["R3"]]}]}"#
        )]
    );
}

#[test]
fn a_bad_file_is_refused_with_its_place_and_a_remedy() {
    let relab = |from: &str, to: &str| (RELAB.replace(from, to), FileFormat::Relab);
    let diem = |from: &str, to: &str| (DIEM.replace(from, to), FileFormat::Diem);
    let cases = [
        (relab("\"leader\":3", "\"leader\":5"), "scenario 1, round 2: names the replica 5 of 4"),
        (relab("\"leader\":3", "\"leader\":0"), "replicas are counted from 1"),
        (relab("\"ReplicaID\":2,\"TwinID\":0", "\"ReplicaID\":2,\"TwinID\":1"), "names the twin 1 of replica 2"),
        (relab("\"ReplicaID\":1,\"TwinID\":2", "\"ReplicaID\":1,\"TwinID\":1"), "round 1: instance 0 is named twice"),
        (relab("\"ReplicaID\":1,\"TwinID\":2", "\"ReplicaID\":1,\"TwinID\":0"), "have the twin IDs 1 and 2"),
        (relab("\"num_twins\": 1", "\"num_twins\": 9"), "9 of 4 replicas cannot be twins"),
        (relab("\"scenarios\"", "\"scenario\""), "missing field `scenarios` at line"),
        (relab("},\n\t\t {\"leader\":3,\"partitions\":[]}", "}"), ""),
        (diem("\"2\": 2", "\"2\": 5"), "scenario 1, round 2: names the instance 5 of 5"),
        (diem("[0, 1], [4", "[0, 1], [1"), "scenario 1, round 1: instance 1 is named twice"),
        (diem("\"2\": 2", "\"0\": 2"), "scenario 1, round 0: there is no round 0; help: count rounds from 1"),
        (diem("\"2\": 2", "\"1001\": 2"), "scenario 1: has 1001 rounds, not 1 to 1000"),
        (diem("\"round_leaders\"", "\"leaders\""), "missing field `round_leaders` at line"),
    ];
    for ((text, format), says) in cases {
        match parse(&text, format) {
            Ok(_) => assert!(says.is_empty(), "{says}"),
            Err(error) => assert!(!says.is_empty() && error.to_string().contains(says), "{says}: {error}"),
        }
    }
}

#[test]
fn a_scenario_that_a_format_cannot_express_is_refused() {
    let cases = [
        (
            r#"{"replicas":4,"twins":0,"rounds":[{"leader":"R0","groups":[["R0","R1"],["R2"]],"passes":[[0,1]]}]}"#,
            "scenario 1, round 1: has `passes`",
        ),
        (r#"{"replicas":4,"rounds":[{"leader":"R0","groups":[],"restarts":["R0"]}]}"#, "has `restarts`"),
        (r#"{"replicas":4,"rounds":[{"leader":"R0","groups":[],"lost_disks":["R0"]}]}"#, "has `lost_disks`"),
        (r#"{"replicas":7,"faults":1,"rounds":[{"leader":"R0","groups":[]}]}"#, "tolerates 1 faults"),
        (r#"{"replicas":4,"hostile":"flood","rounds":[{"leader":"R0","groups":[]}]}"#, "has a hostile client"),
    ];
    for (line, says) in cases {
        let scenario = Entry::from_line(line).expect("it is one").scenario;
        for to in [FileFormat::Relab, FileFormat::Diem] {
            let error = format(std::slice::from_ref(&scenario), to).expect_err(line).to_string();
            assert!(error.contains(says) && error.contains("leave"), "{line}: {error}");
        }
        let kept = format(std::slice::from_ref(&scenario), FileFormat::Quorate).expect("it is our own format");
        assert_eq!(parse(&kept, FileFormat::Quorate).expect("it was just written"), [scenario]);
    }
    let [four, seven] = [4, 7].map(|replicas| {
        let line = format!(r#"{{"replicas":{replicas},"rounds":[{{"leader":"R0","groups":[]}}]}}"#);
        Entry::from_line(&line).expect("it is one").scenario
    });
    let error = format(&[four, seven], FileFormat::Relab).expect_err("two shapes").to_string();
    assert!(error.contains("scenario 2: has other replicas or twins than the first one"), "{error}");
    assert!(format(&[], FileFormat::Diem).is_err(), "the formats need settings");
}

proptest! {
    #[test]
    fn every_scenario_survives_both_formats(
        replicas in 4usize..9,
        twins in 0usize..4,
        partitions in 1usize..4,
        rounds in 1usize..6,
        seed: u64,
    ) {
        let participants = Participants::new(Quorum::of(replicas).expect("enough replicas"), twins.min(replicas));
        let shape = Shape { participants, partitions, rounds, one_way: false, pruned: false };
        let space = Space::new(shape).expect("it can be counted");
        let source = Source::Space(&space, Choice::Sample { scenarios: 5, seed });
        let scenarios: Vec<Scenario> = source.part(Shard::WHOLE).collect();
        for to in [FileFormat::Relab, FileFormat::Diem, FileFormat::Quorate] {
            let text = format(&scenarios, to).expect("it has no keys of ours");
            prop_assert_eq!(parse(&text, to).expect("it was just written"), scenarios.clone());
        }
    }

    #[test]
    fn no_text_makes_the_readers_panic(text in "[\\[\\]{}:,\"a-z0-9_]{0,80}") {
        for format in [FileFormat::Relab, FileFormat::Diem] {
            drop(parse(&text, format));
        }
    }
}
