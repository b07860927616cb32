//! Tests the mutants of the catalogue: those that hunts find are found, and a variable gives a whole process a mutant.

use quorate_adversary::twins::museum::{EXHIBITS, Exhibit, Hunt, Mutant, Play, UNSHOWN, Unshown};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::mutants::{VARIABLE, chosen};
use std::collections::BTreeSet;
use std::process::Command;

/// Scenarios that the checker `hunts` plays for each hunt, in equal parts for each protocol; `QUORATE_HUNTED=<count>`
/// plays more.
const SCENARIOS: u64 = 2200;

#[test]
fn the_catalogue_holds_every_mutant_once() {
    let numbers: Vec<u8> = UNSHOWN.iter().map(|one| one.number).collect();
    assert_eq!(numbers, (1..=45).collect::<Vec<u8>>());
    let injected: Vec<Mutant> = UNSHOWN.iter().filter_map(|one| one.mutant).collect();
    assert_eq!(injected.len(), injected.iter().collect::<BTreeSet<_>>().len(), "no two numbers have one mutant");
    assert_eq!(injected.into_iter().collect::<BTreeSet<_>>(), Mutant::unshown().collect());
    let exhibits: BTreeSet<String> = EXHIBITS.iter().map(Exhibit::name).collect();
    for Unshown { number, mutant, shown_by, .. } in UNSHOWN {
        assert!(mutant.is_some() != shown_by.is_some(), "mutant {number}");
        assert!(shown_by.is_none_or(|exhibit| exhibits.contains(exhibit)), "mutant {number}: {shown_by:?}");
    }
}

/// `mutation/run.sh` takes the names of the mutants from there.
#[test]
fn the_documents_list_the_same_mutants() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/MUSEUM.md"));
    let (_, score) = page.split_once("## The mutation score").expect("the page has this section");
    for Unshown { number, bug, mutant, shown_by, found_by, property, .. } in UNSHOWN {
        let name = mutant.map(|mutant| format!("`{mutant}`")).or(shown_by.map(|exhibit| format!("exhibit {exhibit}")));
        let row = format!("| {number} | {bug} | {} |", name.expect("each entry has one"));
        let Some(line) = score.lines().find(|line| line.starts_with(&row)) else { panic!("no line begins {row}") };
        let found = match (found_by, property) {
            (Some(checker), Some(property)) => format!("{checker}: {}", property.name()),
            (Some(checker), None) => (*checker).to_owned(),
            (None, _) => "none".to_owned(),
        };
        assert!(shown_by.is_some() || line.ends_with(&format!("| {found} |")), "{line} is not {found}");
    }
}

#[test]
fn hunts_find_mutants_and_nothing_else() {
    for Unshown { number, mutant, hunt, .. } in UNSHOWN {
        let Some((hunt, protocol, budget)) = *hunt else { continue };
        let first = |mutant: Option<Mutant>, scenarios: u64| {
            let mut play = hunt.scenes(protocol, Play { mutant, broken: mutant.is_some(), record: false });
            (0..scenarios).find_map(|number| play(number).map(|violation| (number + 1, violation)))
        };
        let (scenarios, _) = first(*mutant, budget).unwrap_or_else(|| panic!("mutant {number} is missed"));
        assert_eq!(first(None, scenarios), None, "mutant {number}: without it");
    }
}

/// `mutation/run.sh` runs each checker this way.
#[test]
fn a_variable_gives_a_process_a_mutant() {
    let run = |mutant: Option<&str>| {
        let mut command = Command::new(std::env::current_exe().expect("this test runs"));
        let command = command.args(["--exact", "ambush::a_nearby_byzantine_replica_violates_nothing"]);
        command.env("QUORATE_AMBUSHES", "40").env_remove(VARIABLE).envs(mutant.map(|mutant| (VARIABLE, mutant)));
        let output = command.output().expect("this binary runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("running 1 test"), "{text}");
        (output.status.success(), text)
    };
    let (passes, text) = run(None);
    assert!(passes, "{text}");
    let (passes, text) = run(Some("VotesMixed"));
    assert!(!passes && text.contains("scenario"), "{text}");
}

/// The checker `hunts`: the museum's hunts with the mutant that the variable names, or without one.
#[test]
#[ignore = "a checker of mutation/run.sh"]
fn hunts_with_the_chosen_mutant() {
    let named = |name: &str| {
        let is = |mutant: &Mutant| mutant.to_string() == name;
        Mutant::unshown().find(is).unwrap_or_else(|| panic!("{VARIABLE}: no mutant {name}"))
    };
    let mutant = chosen().map(named);
    if matches!(mutant, Some(Mutant::Rule(_) | Mutant::Rewriting(_))) {
        println!("only hunts inject it");
    }
    let scenarios = std::env::var("QUORATE_HUNTED").map_or(SCENARIOS, |count| count.parse().expect("a number"));
    let of = |protocol: &&ProtocolKind| mutant.is_none_or(|mutant| mutant.protocol().is_none_or(|of| of == **protocol));
    let protocols: Vec<ProtocolKind> = ProtocolKind::ALL.iter().filter(of).copied().collect();
    for protocol in &protocols {
        for hunt in [Hunt::Ambush, Hunt::Twins, Hunt::Mutation, Hunt::Random] {
            let mut play = hunt.scenes(*protocol, Play { mutant, broken: mutant.is_some(), record: false });
            for number in 0..scenarios / protocols.len() as u64 {
                let violation = play(number);
                assert_eq!(violation, None, "{protocol}: scenario {} of {}", number + 1, hunt.name());
            }
        }
    }
}
