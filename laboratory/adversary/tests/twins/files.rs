//! Tests the format of scenario files.

use quorate_adversary::twins::run::{Choice, Shard, Source};
use quorate_adversary::twins::{Entry, Participants, Property, Shape, Space, Violation};
use quorate_consensus::config::ProtocolKind;
use quorate_types::Quorum;

fn entries(one_way: bool) -> Vec<Entry> {
    let participants = Participants::new(Quorum::with_faults(6, 1).expect("six tolerate one fault"), 2);
    let space = Space::new(Shape { participants, partitions: 3, rounds: 4, one_way, pruned: false })
        .expect("it can be counted");
    Source::Space(&space, Choice::Sample { scenarios: 200, seed: 3 }).part(Shard::WHOLE).map(Entry::from).collect()
}

fn entries_with_lost_disks() -> Vec<Entry> {
    let participants = Participants::new(Quorum::of(7).expect("seven tolerate two faults"), 1);
    let space = Space::new(Shape { participants, partitions: 2, rounds: 4, one_way: false, pruned: true })
        .expect("it can be counted");
    let choice = Choice::SampleLosingDisks { scenarios: 200, seed: 3 };
    Source::Space(&space, choice).part(Shard::WHOLE).map(Entry::from).collect()
}

#[test]
fn a_written_scenario_can_be_read() {
    for entry in entries(false).into_iter().chain(entries(true)).chain(entries_with_lost_disks()) {
        assert_eq!(Entry::from_line(&entry.to_line()).expect("it was just written"), entry);
        let what = "it's \"so\"\n".to_owned();
        let found = Entry {
            protocol: Some(ProtocolKind::FastHotStuff),
            found: Some(Violation { property: Property::Agreement, what }),
            ..entry
        };
        let line = found.to_line();
        assert!(!line.contains('\n'), "one line each");
        assert_eq!(Entry::from_line(&line).expect("it was just written"), found);
    }
}

#[test]
fn a_scenario_has_the_documented_form() {
    let line = r#"{"replicas":4,"twins":1,"rounds":[{"leader":"R0","groups":[["R0","R1","R2"],["R3","R0'"]],"passes":[[0,1]]}]}"#;
    let entry = Entry::from_line(line).expect("it is one");
    assert_eq!(entry.scenario.rounds[0].groups, [0b00111, 0b11000]);
    assert_eq!(entry.scenario.rounds[0].passes, [(0, 1)]);
    assert_eq!(entry.to_line(), line);
    let line =
        r#"{"replicas":4,"twins":0,"rounds":[{"leader":"R0","groups":[],"restarts":["R0","R3"],"lost_disks":["R1"]}]}"#;
    let entry = Entry::from_line(line).expect("it is one");
    assert_eq!((entry.scenario.rounds[0].restarts, entry.scenario.rounds[0].lost_disks), (0b1001, 0b0010));
    assert_eq!(entry.to_line(), line);
}

#[test]
fn documented_scenarios_can_be_parsed() {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/TWINS.md"));
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"")).collect();
    assert!(lines.len() >= 2, "there are examples");
    for line in lines {
        Entry::from_line(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn an_invalid_line_is_refused_with_a_reason() {
    let round = r#"{"leader":"R1","groups":[["R0","R1","R2","R3","R0'"]]}"#;
    let file = |replicas: usize, twins: usize, rounds: &str| {
        format!(r#"{{"replicas":{replicas},"twins":{twins},"rounds":[{rounds}]}}"#)
    };
    let wrong = [
        ("what".to_owned(), "docs/TWINS.md"),
        (r#"{"replicas":4,"rounds":[],"colour":1}"#.to_owned(), "colour"),
        (file(4, 1, ""), "between 1 and 1000 rounds"),
        (file(0, 0, round), "not 0"),
        (file(3, 4, round), "4 of 3 replicas cannot be twins"),
        (file(60, 5, round), "64 instances"),
        (file(4, 0, round), "there is no `R0'`; help: the instances are R0 R1 R2 R3"),
        (file(4, 1, r#"{"leader":"R0'","groups":[]}"#), "one of two instances"),
        (file(4, 1, r#"{"leader":"R9","groups":[]}"#), "round 1: there is no `R9`"),
        (file(4, 1, r#"{"leader":"R0","groups":[["R1"],["R2","R1"]]}"#), "named twice"),
        (file(4, 1, r#"{"leader":"R0","groups":[["R1"],[]]}"#), "empty"),
        (file(4, 1, r#"{"leader":"R0","groups":[["R1"]],"passes":[[0,1]]}"#), "positions"),
        (r#"{"replicas":4,"faults":2,"rounds":[]}"#.to_owned(), "cannot tolerate 2"),
        (
            file(7, 1, r#"{"leader":"R1","groups":[],"lost_disks":["R7"]}"#),
            "round 1: `lost_disks` names `R7`; help: name",
        ),
        (
            file(7, 1, r#"{"leader":"R1","groups":[],"restarts":["R0"]}"#),
            "`restarts` names `R0`; help: name any of R1 R2",
        ),
        (file(4, 0, r#"{"leader":"R1","groups":[],"restarts":["R2"],"lost_disks":["R2"]}"#), "`R2` restarts twice"),
        (file(4, 1, r#"{"leader":"R1","groups":[],"lost_disks":["R2"]}"#), "the 1 twins are all of f = 1 faults"),
    ];
    for (line, expected) in wrong {
        let error = Entry::from_line(&line).expect_err(&line).to_string();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn parts_add_up_to_the_whole() {
    for total in [0, 1, 7, 64, 1000] {
        for of in 1..=9 {
            let parts = (1..=of).map(|index| Shard { index, of }.share(total));
            assert_eq!(parts.sum::<u64>(), total, "{total} in {of} parts");
        }
    }
}
