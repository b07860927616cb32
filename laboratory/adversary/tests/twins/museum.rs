//! Tests the museum of bugs: every exhibit shows its bug, and the cheap hunts find it. `quorate museum` runs all hunts.

use quorate_adversary::twins::museum::{ABSENT, EXHIBITS, Exhibit, Mutant};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The listed bugs that the protocols can express.
const EXPRESSIBLE: [u8; 27] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 26, 27, 28, 29];
/// Number of bugs in the list.
const LISTED: u8 = 29;
/// Bugs added later, of our own or of others.
const ADDED: [u8; 11] = [30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40];
/// Maximum budget of a hunt here, in scenarios; `quorate museum` runs the others.
const CHEAP: u64 = 5000;

#[test]
fn every_bug_of_the_list_is_exhibited_or_listed_as_absent() {
    let shown: BTreeSet<u8> = EXHIBITS.iter().map(|exhibit| exhibit.number).collect();
    let (listed, added): (Vec<u8>, Vec<u8>) = shown.iter().partition(|number| **number <= LISTED);
    assert_eq!((&listed[..], &added[..]), (&EXPRESSIBLE[..], &ADDED[..]));
    let absent: BTreeSet<u8> = ABSENT.iter().map(|absent| absent.number).collect();
    assert!(shown.is_disjoint(&absent));
    let told: BTreeSet<u8> = listed.into_iter().chain(absent).collect();
    assert_eq!(told, (1..=LISTED).collect());
    let names: BTreeSet<String> = EXHIBITS.iter().map(Exhibit::name).collect();
    assert_eq!(names.len(), EXHIBITS.len(), "no two have one name");
    assert!(EXHIBITS.iter().all(|exhibit| !exhibit.source.is_empty()), "every exhibit has a source");
    let mutants: BTreeSet<Mutant> = EXHIBITS.iter().filter_map(|exhibit| exhibit.mutant).collect();
    assert_eq!(mutants, Mutant::all().collect(), "no mutant is without an exhibit");
}

#[test]
fn every_scenario_shows_its_bug_by_the_property_it_violates() {
    for exhibit in EXHIBITS {
        let ending = exhibit.transcript(true);
        let seen =
            ending.violation.unwrap_or_else(|| panic!("{}: no violation\n{}", exhibit.name(), ending.transcript));
        assert_eq!(seen.property, exhibit.property, "{}: {}", exhibit.name(), seen.what);
        assert!(ending.transcript.contains("view 1: leader R"), "{}: {}", exhibit.name(), ending.transcript);
    }
}

#[test]
fn every_cheap_hunt_finds_its_bug_and_nothing_else() {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(exhibit) = EXHIBITS.get(next.fetch_add(1, Ordering::Relaxed)) {
            for caught in exhibit.visit(CHEAP) {
                assert!(caught.passed(), "{}: {caught:?}", exhibit.name());
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|worker| worker.join().expect("each exhibit passes"));
    });
}
