//! Tests the number of scenarios: compares the space with a formula, and with brute force where that is feasible.

use quorate_adversary::twins::symmetry;
use quorate_adversary::twins::{Participants, Round, Scenario, Shape, Space};
use quorate_types::{Quorum, ReplicaId};
use std::collections::BTreeSet;

fn shape(replicas: usize, twins: usize, partitions: usize, rounds: usize) -> Shape {
    let quorum = Quorum::of(replicas).expect("the size is sound");
    Shape { participants: Participants::new(quorum, twins), partitions, rounds, one_way: false, pruned: true }
}

fn unpruned(shape: &Shape) -> Shape {
    Shape { pruned: false, ..shape.clone() }
}

fn count(shape: &Shape) -> u128 {
    Space::new(shape.clone()).expect("the space is small").count()
}

/// Returns the number of ways to divide n things into k groups: S(n, k) = k S(n-1, k) + S(n-1, k-1).
fn stirling(n: usize, k: usize) -> u128 {
    match (n, k) {
        (0, 0) => 1,
        (0, _) | (_, 0) => 0,
        _ => k as u128 * stirling(n - 1, k) + stirling(n - 1, k - 1),
    }
}

/// Returns the number of choices for one round without pruning: S(n+t, j) divisions for each number j of groups, 3
/// states per pair of groups if one-way links are allowed, and n leaders.
fn choices(shape: &Shape) -> u128 {
    let divisions = (1..=shape.partitions).map(|groups| {
        let pairs = (groups * (groups - 1) / 2) as u32;
        stirling(shape.participants.len(), groups) * if shape.one_way { 3u128.pow(pairs) } else { 1 }
    });
    divisions.sum::<u128>() * shape.participants.replicas() as u128
}

/// Returns all choices for one round.
fn rounds_of(shape: &Shape) -> Vec<Round> {
    let space = Space::new(Shape { rounds: 1, pruned: false, ..shape.clone() }).expect("the space is small");
    (0..space.count()).map(|number| space.scenario(number).rounds.remove(0)).collect()
}

/// Returns the renamed round, with its groups in an order that does not depend on names.
fn rename(round: &Round, participants: &Participants, renaming: &symmetry::Renaming) -> Round {
    let mut groups: Vec<(u64, usize)> =
        round.groups.iter().enumerate().map(|(at, group)| (renaming.set(*group), at)).collect();
    groups.sort_unstable_by_key(|(group, _)| group.trailing_zeros());
    let place = |at: u8| groups.iter().position(|(_, was)| *was == usize::from(at)).expect("it is there") as u8;
    let mut passes: Vec<(u8, u8)> = round.passes.iter().map(|(from, to)| (place(*from), place(*to))).collect();
    passes.sort_unstable();
    let leader = renaming.identity(participants, round.leader);
    Round { leader, groups: groups.iter().map(|(group, _)| *group).collect(), passes, ..round.clone() }
}

/// Applies Burnside's lemma to whole scenarios: the mean, over all renamings, of the number of fixed choices to the
/// power of the rounds.
fn burnside(shape: &Shape) -> u128 {
    let (renamings, choices) = (symmetry::all(&shape.participants), rounds_of(shape));
    let fixed = |renaming: &symmetry::Renaming| {
        choices.iter().filter(|round| rename(round, &shape.participants, renaming) == **round).count() as u128
    };
    let sum: u128 = renamings.iter().map(|renaming| fixed(renaming).pow(shape.rounds as u32)).sum();
    assert!(sum.is_multiple_of(renamings.len() as u128), "orbits are whole");
    sum / renamings.len() as u128
}

/// Returns the least scenario in the orbit of the given one.
fn least(rounds: &[Round], participants: &Participants) -> Vec<Round> {
    let renamed =
        |renaming: &symmetry::Renaming| rounds.iter().map(|round| rename(round, participants, renaming)).collect();
    symmetry::all(participants).iter().map(renamed).min().expect("nothing is a renaming too")
}

/// Enumerates all scenarios, and returns the least one of each orbit.
fn orbits_by_force(shape: &Shape) -> BTreeSet<Vec<Round>> {
    let choices = rounds_of(shape);
    let mut all: Vec<Vec<Round>> = vec![Vec::new()];
    for _ in 0..shape.rounds {
        let longer = |rounds: Vec<Round>| {
            choices.iter().map(move |round| rounds.iter().cloned().chain([round.clone()]).collect()).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all.iter().map(|rounds| least(rounds, &shape.participants)).collect()
}

fn small_shapes() -> Vec<Shape> {
    let plain = [
        shape(2, 1, 2, 3),
        shape(3, 1, 2, 2),
        shape(4, 1, 2, 2),
        shape(3, 0, 3, 2),
        shape(4, 2, 2, 1),
        shape(3, 2, 2, 2),
    ];
    let one_way = [shape(3, 1, 2, 2), shape(3, 0, 3, 1)].map(|shape| Shape { one_way: true, ..shape });
    plain.into_iter().chain(one_way).collect()
}

#[test]
fn without_pruning_the_count_is_the_product_of_the_choices() {
    for shape in small_shapes().into_iter().chain([shape(4, 1, 2, 7), shape(4, 1, 3, 4), shape(7, 2, 2, 3)]) {
        let expected = choices(&shape).pow(shape.rounds as u32);
        assert_eq!(count(&unpruned(&shape)), expected, "{shape:?}");
    }
}

#[test]
fn with_pruning_the_count_is_the_number_of_orbits() {
    for shape in small_shapes().into_iter().chain([shape(4, 1, 2, 7), shape(5, 1, 2, 4), shape(7, 2, 2, 2)]) {
        assert_eq!(count(&shape), burnside(&shape), "{shape:?}");
    }
}

#[test]
fn each_orbit_occurs_once_as_its_least_scenario() {
    for shape in small_shapes() {
        let space = Space::new(shape.clone()).expect("the space is small");
        let listed: Vec<Vec<Round>> = (0..space.count()).map(|number| space.scenario(number).rounds).collect();
        let distinct: BTreeSet<Vec<Round>> = listed.iter().cloned().collect();
        assert_eq!(distinct.len(), listed.len(), "{shape:?}: no scenario has two numbers");
        let orbits: BTreeSet<Vec<Round>> = distinct.iter().map(|rounds| least(rounds, &shape.participants)).collect();
        assert_eq!(orbits.len(), listed.len(), "{shape:?}: no two are equal up to a renaming");
        assert_eq!(orbits, orbits_by_force(&shape), "{shape:?}: none is missing");
    }
}

/// Gogada et al., ApPLIED 2023, section 4.1: four replicas, one twin and two partitions have six partition scenarios
/// after pruning.
#[test]
fn six_divisions_of_the_framework_paper_remain() {
    let shape = shape(4, 1, 2, 1);
    let space = Space::new(shape.clone()).expect("the space is small");
    let all = (0..space.count()).map(|number| space.scenario(number).rounds.remove(0));
    let without_leader =
        |round: Round| least(&[Round { leader: ReplicaId(0), ..round }], &shape.participants).remove(0).groups;
    let divisions: BTreeSet<Vec<u64>> = all.map(without_leader).collect();
    assert_eq!(divisions.len(), 6);
}

/// Two rounds that isolate different honest replicas are not equivalent to two that isolate the same one.
#[test]
fn a_renaming_is_the_same_in_all_rounds() {
    let participants = Participants::new(Quorum::of(4).expect("four replicas"), 1);
    let without = |instance: u32| Round {
        leader: ReplicaId(0),
        groups: vec![participants.everybody() & !(1 << instance), 1 << instance],
        passes: Vec::new(),
        restarts: 0,
        lost_disks: 0,
    };
    let same = least(&[without(1), without(1)], &participants);
    assert_eq!(least(&[without(3), without(3)], &participants), same);
    assert_ne!(least(&[without(1), without(2)], &participants), same);
}

#[test]
fn an_uncountable_space_is_refused() {
    let refused = |shape: Shape| Space::new(shape).err().expect("it cannot be counted").to_string();
    assert!(refused(shape(4, 1, 0, 7)).contains("partitions is 0"));
    assert!(refused(shape(4, 1, 2, 40)).contains("too many scenarios of 40 rounds"));
    assert!(refused(shape(16, 0, 2, 1)).contains("--unpruned"));
    assert!(refused(unpruned(&shape(40, 0, 2, 1))).contains("ways to divide 40 instances"));
    assert_eq!(count(&unpruned(&shape(16, 0, 2, 1))), (1 << 15) * 16);
}

#[test]
fn scenarios_have_the_requested_shape() {
    let space = Space::new(Shape { one_way: true, ..shape(4, 1, 3, 5) }).expect("it can be counted");
    for number in (0..1000).map(|step| step * (space.count() / 1000)) {
        let Scenario { participants, rounds } = space.scenario(number);
        assert_eq!((participants, rounds.len()), (space.shape().participants.clone(), 5));
        for Round { leader, groups, passes, restarts, lost_disks } in rounds {
            assert_eq!((restarts, lost_disks), (0, 0));
            assert!(leader.0 < 4 && (1..=3).contains(&groups.len()));
            assert_eq!(groups.iter().fold(0, |all, group| all | group), 0b11111, "each instance is in a group");
            assert_eq!(groups.iter().map(|group| group.count_ones()).sum::<u32>(), 5, "no instance is in two");
            assert!(passes.iter().all(|(from, to)| from != to && usize::from(*from.max(to)) < groups.len()));
        }
    }
}
