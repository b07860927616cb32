//! All scenarios of a shape, numbered, with only one of several that are equal up to a renaming.
//!
//! After Bano et al., "Twins: BFT systems made robust" (2020), and Gogada et al., ApPLIED 2023, section 4.1: the
//! partitions of the instances into a bounded number of groups, times the leaders, arranged over the rounds. A renaming
//! must be the same in all rounds. Two rounds that differ only in the isolated honest replica are different choices, so
//! pruning each round on its own, as step 2 there suggests, would lose the scenarios in which honest replicas change
//! sides. Here, exactly the lexicographically least scenario, comparing round by round, is kept from each orbit under
//! the group of renamings ([`symmetry`](crate::twins::symmetry)).
//!
//! The number of scenarios is known in advance by Burnside's lemma: a renaming that fixes x choices of a round fixes
//! x^r scenarios of r rounds, so the mean of x^r over all renamings is the number of orbits. The same holds for the
//! remaining rounds, under the renamings that fix all rounds chosen so far. A number is therefore turned into its
//! scenario round by round, and samples are uniform.

use crate::twins::participants::{InstanceSet, Participants};
use crate::twins::scenario::{Round, Scenario};
use crate::twins::symmetry::{self, Renaming};
use quorate_types::ReplicaId;
use std::collections::HashMap;
use thiserror::Error;

/// Maximum number of divisions of the instances.
const MAX_DIVISIONS: usize = 1 << 20;
/// Maximum number of entries in the table of renamed divisions (renamings times divisions).
const MAX_RENAMED: u64 = 1 << 24;
/// Maximum number of choices kept in all states.
const MAX_KEPT: usize = 1 << 25;

/// Parameters of a space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    pub participants: Participants,
    /// Maximum number of groups in a round, at least 1.
    pub partitions: usize,
    /// Views of the script, at least 1.
    pub rounds: usize,
    /// Whether groups may have one-way links.
    pub one_way: bool,
    /// Whether to keep only one of several scenarios that are equal up to a renaming.
    pub pruned: bool,
}

/// Reason why a space cannot be counted.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SpaceError {
    #[error("{0} is 0; set at least 1")]
    Zero(&'static str),
    #[error(
        "there are more than {MAX_DIVISIONS} ways to divide {instances} instances into {partitions} groups; set fewer \
         partitions or replicas"
    )]
    Divisions { instances: usize, partitions: usize },
    #[error(
        "{renamings} renamings of the replicas are too many to prune {divisions} ways to divide them; use \
         --unpruned, or fewer partitions or replicas"
    )]
    Renamings { renamings: String, divisions: usize },
    /// There are 2^128 scenarios or more.
    #[error("there are too many scenarios of {0} rounds to number them; set fewer rounds")]
    Count(usize),
}

/// A division of the instances into groups, and the one-way links between groups.
type Division = (Vec<InstanceSet>, Vec<(u8, u8)>);

/// The choices for a round, which combine a division and a leader under one number.
struct Choices {
    leaders: usize,
    divisions: Vec<Division>,
    /// Image of each division (inner index) under each renaming (outer index).
    renamed: Vec<Vec<u32>>,
    /// Image of each leader (inner index) under each renaming (outer index).
    renamed_leaders: Vec<Vec<u16>>,
}

/// A set of renamings that fix all rounds chosen so far, and the possible next rounds.
struct State {
    renamings: Vec<u32>,
    /// Least choices of the orbits, grouped by the resulting state.
    next: Vec<(usize, Vec<u32>)>,
    /// Number of scenarios with 0, 1, 2... further rounds.
    counts: Vec<u128>,
}

/// The scenarios of a shape.
pub struct Space {
    shape: Shape,
    choices: Choices,
    /// States; the initial one comes first.
    states: Vec<State>,
}

impl Space {
    /// Counts the scenarios of a shape.
    ///
    /// # Errors
    /// If there are too many to count.
    pub fn new(shape: Shape) -> Result<Space, SpaceError> {
        let zero = [("partitions", shape.partitions), ("rounds", shape.rounds)];
        if let Some((name, _)) = zero.iter().find(|(_, value)| *value == 0) {
            return Err(SpaceError::Zero(name));
        }
        let choices = Choices::new(&shape)?;
        let mut space = Space { shape, choices, states: Vec::new() };
        space.find_states()?;
        space.count_states()?;
        Ok(space)
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the number of scenarios.
    pub fn count(&self) -> u128 {
        *self.states[0].counts.last().expect("a state has a count for each number of rounds")
    }

    /// Returns the scenario with this number.
    ///
    /// # Panics
    /// If `number` is not below [`Space::count`].
    pub fn scenario(&self, number: u128) -> Scenario {
        assert!(number < self.count(), "there are {} scenarios, from 0; not {number}", self.count());
        let (mut state, mut rest) = (&self.states[0], number);
        let mut rounds = Vec::with_capacity(self.shape.rounds);
        for left in (0..self.shape.rounds).rev() {
            let mut chosen = None;
            for (next, choices) in &state.next {
                let each = self.states[*next].counts[left];
                let all = each * choices.len() as u128;
                if rest < all {
                    chosen = Some((choices[(rest / each) as usize], *next));
                    rest %= each;
                    break;
                }
                rest -= all;
            }
            let (choice, next) = chosen.expect("the counts add up");
            rounds.push(self.choices.round(choice));
            state = &self.states[next];
        }
        Scenario { participants: self.shape.participants.clone(), rounds }
    }

    /// Finds the reachable states.
    fn find_states(&mut self) -> Result<(), SpaceError> {
        let all: Vec<u32> = (0..self.choices.renamed.len() as u32).collect();
        let mut names: HashMap<Vec<u32>, usize> = HashMap::from([(all.clone(), 0)]);
        self.states.push(State { renamings: all, next: Vec::new(), counts: Vec::new() });
        let (mut at, mut kept) = (0, 0);
        while at < self.states.len() {
            let mut next: Vec<(usize, Vec<u32>)> = Vec::new();
            for (choice, unchanged) in self.choices.orbits(&self.states[at].renamings) {
                let state = *names.entry(unchanged).or_insert_with_key(|renamings| {
                    self.states.push(State { renamings: renamings.clone(), next: Vec::new(), counts: Vec::new() });
                    self.states.len() - 1
                });
                match next.iter_mut().find(|(to, _)| *to == state) {
                    Some((_, choices)) => choices.push(choice),
                    None => next.push((state, vec![choice])),
                }
                kept += 1;
            }
            if kept > MAX_KEPT {
                return Err(self.too_many_renamings());
            }
            self.states[at].next = next;
            at += 1;
        }
        Ok(())
    }

    fn too_many_renamings(&self) -> SpaceError {
        let renamings = self.choices.renamed.len().to_string();
        SpaceError::Renamings { renamings, divisions: self.choices.divisions.len() }
    }

    fn count_states(&mut self) -> Result<(), SpaceError> {
        let overflow = SpaceError::Count(self.shape.rounds);
        self.states.iter_mut().for_each(|state| state.counts.push(1));
        for left in 0..self.shape.rounds {
            for at in 0..self.states.len() {
                let product = |(to, choices): &(usize, Vec<u32>)| {
                    self.states[*to].counts[left].checked_mul(choices.len() as u128)
                };
                let mut products = self.states[at].next.iter().map(product);
                let sum = products.try_fold(0u128, |sum, product| sum.checked_add(product?)).ok_or(overflow.clone())?;
                self.states[at].counts.push(sum);
            }
        }
        Ok(())
    }
}

impl Choices {
    fn new(shape: &Shape) -> Result<Choices, SpaceError> {
        let Shape { participants, partitions, one_way, pruned, .. } = shape;
        let divisions = divisions(participants.len(), *partitions, *one_way)
            .ok_or(SpaceError::Divisions { instances: participants.len(), partitions: *partitions })?;
        let order = symmetry::order(participants);
        let fits =
            order.and_then(|order| order.checked_mul(divisions.len() as u64)).is_some_and(|all| all <= MAX_RENAMED);
        let renamings = match (*pruned, fits) {
            (true, true) => symmetry::all(participants),
            (false, _) => vec![symmetry::nothing(participants)],
            (true, false) => {
                let renamings = order.map_or("more than 2^64".into(), |order| order.to_string());
                return Err(SpaceError::Renamings { renamings, divisions: divisions.len() });
            }
        };
        let places: HashMap<&Division, u32> = divisions.iter().zip(0..).collect();
        let renamed =
            |renaming: &Renaming| divisions.iter().map(|division| places[&rename(division, renaming)]).collect();
        let leaders = |renaming: &Renaming| {
            (0..participants.replicas() as u16)
                .map(|leader| renaming.identity(participants, ReplicaId(leader)).0)
                .collect()
        };
        Ok(Choices {
            leaders: participants.replicas(),
            renamed: renamings.iter().map(renamed).collect(),
            renamed_leaders: renamings.iter().map(leaders).collect(),
            divisions,
        })
    }

    fn rename(&self, renaming: u32, choice: u32) -> u32 {
        let (division, leader) = (choice as usize / self.leaders, choice as usize % self.leaders);
        let leader = self.renamed_leaders[renaming as usize][leader];
        self.renamed[renaming as usize][division] * self.leaders as u32 + u32::from(leader)
    }

    /// Returns the least choice of each orbit, and the renamings that fix it.
    fn orbits(&self, renamings: &[u32]) -> Vec<(u32, Vec<u32>)> {
        let mut seen = vec![false; self.divisions.len() * self.leaders];
        let mut orbits = Vec::new();
        for choice in 0..seen.len() as u32 {
            if seen[choice as usize] {
                continue;
            }
            let mut unchanged = Vec::new();
            for renaming in renamings {
                let renamed = self.rename(*renaming, choice);
                seen[renamed as usize] = true;
                if renamed == choice {
                    unchanged.push(*renaming);
                }
            }
            orbits.push((choice, unchanged));
        }
        orbits
    }

    fn round(&self, choice: u32) -> Round {
        let (groups, passes) = self.divisions[choice as usize / self.leaders].clone();
        let leader = ReplicaId((choice as usize % self.leaders) as u16);
        Round { leader, groups, passes, restarts: 0, lost_disks: 0 }
    }
}

/// Returns all divisions of `instances` instances into at most `max_groups` groups, or `None` if there are too many.
fn divisions(instances: usize, max_groups: usize, one_way: bool) -> Option<Vec<Division>> {
    let mut all = Vec::new();
    let mut open: Vec<(usize, Vec<InstanceSet>)> = vec![(0, Vec::new())];
    while let Some((placed, groups)) = open.pop() {
        if placed == instances {
            for passes in passes(groups.len(), one_way)? {
                all.push((groups.clone(), passes));
            }
            if all.len() > MAX_DIVISIONS {
                return None;
            }
            continue;
        }
        // The next instance joins a group or starts one. Pushed in reverse, so that the first case is popped first.
        if groups.len() < max_groups {
            let mut begun = groups.clone();
            begun.push(1 << placed);
            open.push((placed + 1, begun));
        }
        for at in (0..groups.len()).rev() {
            let mut joined = groups.clone();
            joined[at] |= 1 << placed;
            open.push((placed + 1, joined));
        }
    }
    Some(all)
}

/// Returns all sets of one-way links between `groups` groups, with at most one direction per pair, or `None` if there
/// are too many.
fn passes(groups: usize, one_way: bool) -> Option<Vec<Vec<(u8, u8)>>> {
    let mut all = vec![Vec::new()];
    let pairs = (0..groups as u8).flat_map(|one| (one + 1..groups as u8).map(move |other| (one, other)));
    for (one, other) in pairs.filter(|_| one_way) {
        if all.len() > MAX_DIVISIONS {
            return None;
        }
        let with = |pass: (u8, u8)| {
            move |passes: &Vec<(u8, u8)>| -> Vec<(u8, u8)> { passes.iter().copied().chain([pass]).collect() }
        };
        let onward: Vec<_> = all.iter().map(with((one, other))).collect();
        let backward: Vec<_> = all.iter().map(with((other, one))).collect();
        all.extend(onward);
        all.extend(backward);
    }
    all.iter_mut().for_each(|passes| passes.sort_unstable());
    Some(all)
}

/// Returns the renamed division in canonical form: groups ordered by first member, links by position.
fn rename((groups, passes): &Division, renaming: &Renaming) -> Division {
    let mut renamed: Vec<(InstanceSet, usize)> =
        groups.iter().enumerate().map(|(at, group)| (renaming.set(*group), at)).collect();
    renamed.sort_unstable_by_key(|(group, _)| group.trailing_zeros());
    let place = |old: u8| renamed.iter().position(|(_, at)| *at == usize::from(old)).expect("it is one of them") as u8;
    let mut renamed_passes: Vec<(u8, u8)> = passes.iter().map(|(from, to)| (place(*from), place(*to))).collect();
    renamed_passes.sort_unstable();
    (renamed.iter().map(|(group, _)| *group).collect(), renamed_passes)
}
