//! Shrinks a scenario with a violation, so that it can be read by people.

use crate::twins::participants::{InstanceId, InstanceSet, Participants};
use crate::twins::scenario::{Round, Scenario};

/// Returns a locally minimal scenario for which `is_bad` holds: no scenario that is one step simpler is bad.
///
/// # Panics
/// If the scenario itself is not bad.
pub fn shrink(scenario: &Scenario, mut is_bad: impl FnMut(&Scenario) -> bool) -> Scenario {
    assert!(is_bad(scenario), "only a bad scenario can be shrunk");
    let mut smallest = scenario.clone();
    loop {
        let simpler = steps(&smallest).find(&mut is_bad);
        match simpler {
            Some(simpler) => smallest = simpler,
            None => return smallest,
        }
    }
}

/// Returns the scenarios that are one step simpler: without one of the twins; without one of the rounds; with one
/// instance fewer outside the largest group of a round, or one group fewer; with one one-way link fewer; with one
/// restart fewer, or with one from the journal instead of without a disk; with fewer changes of the leader. Each step
/// lowers one of these numbers and raises none of the preceding ones, so shrinking terminates.
pub fn steps(scenario: &Scenario) -> impl Iterator<Item = Scenario> {
    let rounds = scenario.rounds.len();
    let fewer_rounds = (0..rounds).rev().filter(move |_| rounds > 1).map(|at| without_round(scenario, at));
    let in_round = (0..rounds).flat_map(move |at| {
        let round = &scenario.rounds[at];
        let simpler = connected(round, &scenario.participants).into_iter().chain(merged(round)).chain(moved(round));
        let simpler = simpler.chain(without_pass(round)).chain(fewer_restarts(round));
        simpler.map(move |simpler| with_round(scenario, at, simpler))
    });
    let steadier = (0..rounds).filter_map(move |at| steadier(scenario, at));
    without_twin(scenario).into_iter().chain(fewer_rounds).chain(in_round).chain(steadier)
}

fn without_round(scenario: &Scenario, at: usize) -> Scenario {
    let mut simpler = scenario.clone();
    simpler.rounds.remove(at);
    simpler
}

fn with_round(scenario: &Scenario, at: usize, round: Round) -> Scenario {
    let mut simpler = scenario.clone();
    simpler.rounds[at] = round;
    simpler
}

/// Removes the second instance of the last twin.
fn without_twin(scenario: &Scenario) -> Option<Scenario> {
    let twins = scenario.participants.twins().checked_sub(1)?;
    let participants =
        Participants::new(scenario.participants.quorum(), twins).with_hostile(scenario.participants.hostile());
    let rounds = scenario.rounds.iter().map(|round| restrict(round, participants.everybody())).collect();
    Some(Scenario { participants, rounds })
}

/// Returns the round with only the instances in a set.
fn restrict(round: &Round, set: InstanceSet) -> Round {
    let groups = round.groups.iter().map(|group| group & set).collect();
    without_empty_groups(Round { groups, ..round.clone() })
}

/// Returns the round with one group of all instances.
fn connected(round: &Round, participants: &Participants) -> Option<Round> {
    let everybody = participants.everybody();
    let connected = Round { groups: vec![everybody], passes: Vec::new(), ..round.clone() };
    (round.groups != connected.groups).then_some(connected)
}

/// Returns the rounds with two of the groups merged.
fn merged(round: &Round) -> impl Iterator<Item = Round> {
    let groups = round.groups.len();
    (0..groups).flat_map(move |one| {
        (one + 1..groups).map(move |other| {
            let mut simpler = round.clone();
            simpler.groups[one] |= std::mem::take(&mut simpler.groups[other]);
            let place = |at: u8| if usize::from(at) == other { one as u8 } else { at };
            simpler.passes = round.passes.iter().map(|(from, to)| (place(*from), place(*to))).collect();
            simpler.passes.retain(|(from, to)| from != to);
            // Merging can duplicate links between two groups or make them bidirectional; the first one is kept.
            let mut seen: Vec<(u8, u8)> = Vec::new();
            simpler.passes.retain(|(from, to)| {
                let fresh = !seen.contains(&(*from, *to)) && !seen.contains(&(*to, *from));
                seen.push((*from, *to));
                fresh
            });
            without_empty_groups(simpler)
        })
    })
}

/// Returns the rounds with one instance moved to the largest group.
fn moved(round: &Round) -> impl Iterator<Item = Round> {
    let largest = (0..round.groups.len()).max_by_key(|at| round.groups[*at].count_ones());
    largest.into_iter().flat_map(move |largest| {
        let outside = (0..round.groups.len()).filter(move |at| *at != largest && round.groups[*at].count_ones() > 1);
        outside.flat_map(move |at| {
            members(round.groups[at]).map(move |InstanceId(instance)| {
                let mut simpler = round.clone();
                simpler.groups[at] &= !(1 << instance);
                simpler.groups[largest] |= 1 << instance;
                simpler
            })
        })
    })
}

fn members(set: InstanceSet) -> impl Iterator<Item = InstanceId> {
    (0..InstanceSet::BITS as usize).filter(move |instance| set >> instance & 1 == 1).map(InstanceId)
}

fn without_pass(round: &Round) -> impl Iterator<Item = Round> {
    (0..round.passes.len()).map(move |at| {
        let mut simpler = round.clone();
        simpler.passes.remove(at);
        simpler
    })
}

fn fewer_restarts(round: &Round) -> impl Iterator<Item = Round> {
    let lose = members(round.lost_disks).flat_map(move |InstanceId(instance)| {
        let spared = Round { lost_disks: round.lost_disks & !(1 << instance), ..round.clone() };
        [spared.clone(), Round { restarts: round.restarts | 1 << instance, ..spared }]
    });
    let restart = members(round.restarts)
        .map(move |InstanceId(instance)| Round { restarts: round.restarts & !(1 << instance), ..round.clone() });
    lose.chain(restart)
}

/// Returns the scenario with the leader of a round replaced by the previous round's leader, if the leader then changes
/// less often.
fn steadier(scenario: &Scenario, at: usize) -> Option<Scenario> {
    let before = scenario.rounds[at.checked_sub(1)?].leader;
    let mut simpler = scenario.clone();
    simpler.rounds[at].leader = before;
    (changes(&simpler) < changes(scenario)).then_some(simpler)
}

fn changes(scenario: &Scenario) -> usize {
    scenario.rounds.windows(2).filter(|pair| pair[0].leader != pair[1].leader).count()
}

/// Removes empty groups, and renumbers the one-way links.
fn without_empty_groups(round: Round) -> Round {
    let mut places = Vec::new();
    let mut groups = Vec::new();
    for group in &round.groups {
        places.push((*group != 0).then_some(groups.len() as u8));
        groups.extend((*group != 0).then_some(*group));
    }
    let place = |(from, to): (u8, u8)| Some((places[usize::from(from)]?, places[usize::from(to)]?));
    let passes = round.passes.iter().copied().filter_map(place).collect();
    Round { groups, passes, ..round }
}
