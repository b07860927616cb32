//! Every scenario of a shape, each under a number of its own; of those that are equal up to a renaming, one.
//!
//! After Bano et al., "Twins: BFT systems made robust" (2020), and Gogada et al., ApPLIED 2023, section 4.1: the ways to divide the actors into
//! at most so many groups, times the leaders, arranged over the rounds. A renaming must be the same in all rounds: two rounds that
//! differ only in which honest replica is cut off are not one and the same scenario, so that pruning each round by itself, as
//! step 2 there reads, would lose those in which the honest change sides. Here of each orbit under the group of renamings
//! ([`symmetry`](crate::symmetry)) exactly the least scenario is kept, where the rounds are compared in their order.
//!
//! Their number is known beforehand (Burnside's lemma): a renaming that leaves x choices of a round as they are leaves x^r scenarios
//! of r rounds as they are, so that the mean of x^r over all renamings is the number of orbits. The same holds for the rounds that are
//! left under those renamings that change nothing in the rounds that are chosen. So a number is turned into its scenario round by
//! round, and a sample is uniform.

use crate::cast::{ActorSet, Cast};
use crate::scenario::{Round, Scenario};
use crate::symmetry::{self, Renaming};
use quorate_types::ReplicaId;
use std::collections::HashMap;
use thiserror::Error;

/// Most ways to divide the actors.
const MAX_DIVISIONS: usize = 1 << 20;
/// Most entries of the table of what each renaming makes of each way to divide the actors.
const MAX_RENAMED: u64 = 1 << 24;
/// Most choices kept in all states together.
const MAX_KEPT: usize = 1 << 25;

/// What the scenarios of a space have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Who plays.
    pub cast: Cast,
    /// Most groups in a round, from 1.
    pub partitions: usize,
    /// Views of the script, from 1.
    pub rounds: usize,
    /// Whether a group may also hear another that does not hear it.
    pub one_way: bool,
    /// Whether of scenarios that are equal up to a renaming only one is kept.
    pub pruned: bool,
}

/// Why a space cannot be counted.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SpaceError {
    /// A number must be at least 1.
    #[error("{0} is 0; set at least 1")]
    Zero(&'static str),
    /// There are too many ways to divide the actors.
    #[error(
        "there are more than {MAX_DIVISIONS} ways to divide {actors} actors into {partitions} groups; set fewer partitions or replicas"
    )]
    Divisions {
        /// Actors.
        actors: usize,
        /// Groups.
        partitions: usize,
    },
    /// There are too many renamings.
    #[error(
        "{renamings} renamings of the replicas are too many to prune {divisions} ways to divide them; use --unpruned, or fewer partitions or replicas"
    )]
    Renamings {
        /// Renamings.
        renamings: String,
        /// Ways to divide the actors.
        divisions: usize,
    },
    /// There are 2^128 scenarios or more.
    #[error("there are too many scenarios of {0} rounds to number them; set fewer rounds")]
    Count(usize),
}

/// A way to divide the actors: who hears each other, and what passes between groups one way.
type Division = (Vec<ActorSet>, Vec<(u8, u8)>);

/// What can be chosen for a round: a division and a leader, numbered together.
struct Choices {
    leaders: usize,
    divisions: Vec<Division>,
    /// For each renaming and division, what becomes of it.
    renamed: Vec<Vec<u32>>,
    /// For each renaming and leader, who it becomes.
    renamed_leaders: Vec<Vec<u16>>,
}

/// The renamings that change nothing in the rounds chosen so far, and what may come next.
struct State {
    renamings: Vec<u32>,
    /// The least choice of each orbit, by the state that it leads to.
    next: Vec<(usize, Vec<u32>)>,
    /// How many scenarios of 0, 1, 2... further rounds there are.
    counts: Vec<u128>,
}

/// The scenarios of a shape.
pub struct Space {
    shape: Shape,
    choices: Choices,
    /// The one at the beginning comes first.
    states: Vec<State>,
}

impl Space {
    /// Counts the scenarios of a shape.
    ///
    /// # Errors
    /// If there are too many for that.
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

    /// What its scenarios have in common.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many scenarios there are.
    pub fn count(&self) -> u128 {
        *self.states[0].counts.last().expect("a state has a count for each number of rounds")
    }

    /// The scenario of a number.
    ///
    /// # Panics
    /// If there are not so many.
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
        Scenario { cast: self.shape.cast.clone(), rounds }
    }

    /// Finds the states that can be reached.
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
        let Shape { cast, partitions, one_way, pruned, .. } = shape;
        let divisions = divisions(cast.len(), *partitions, *one_way)
            .ok_or(SpaceError::Divisions { actors: cast.len(), partitions: *partitions })?;
        let order = symmetry::order(cast);
        let fits =
            order.and_then(|order| order.checked_mul(divisions.len() as u64)).is_some_and(|all| all <= MAX_RENAMED);
        let renamings = match (*pruned, fits) {
            (true, true) => symmetry::all(cast),
            (false, _) => vec![symmetry::nothing(cast)],
            (true, false) => {
                let renamings = order.map_or("more than 2^64".into(), |order| order.to_string());
                return Err(SpaceError::Renamings { renamings, divisions: divisions.len() });
            }
        };
        let places: HashMap<&Division, u32> = divisions.iter().zip(0..).collect();
        let renamed =
            |renaming: &Renaming| divisions.iter().map(|division| places[&rename(division, renaming)]).collect();
        let leaders = |renaming: &Renaming| {
            (0..cast.replicas() as u16).map(|leader| renaming.identity(cast, ReplicaId(leader)).0).collect()
        };
        Ok(Choices {
            leaders: cast.replicas(),
            renamed: renamings.iter().map(renamed).collect(),
            renamed_leaders: renamings.iter().map(leaders).collect(),
            divisions,
        })
    }

    /// What becomes of a choice.
    fn rename(&self, renaming: u32, choice: u32) -> u32 {
        let (division, leader) = (choice as usize / self.leaders, choice as usize % self.leaders);
        let leader = self.renamed_leaders[renaming as usize][leader];
        self.renamed[renaming as usize][division] * self.leaders as u32 + u32::from(leader)
    }

    /// The least choice of each orbit, and which of the renamings change nothing in it.
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
        Round { leader: ReplicaId((choice as usize % self.leaders) as u16), groups, passes }
    }
}

/// All ways to divide so many actors into at most so many groups; none if there are too many.
fn divisions(actors: usize, max_groups: usize, one_way: bool) -> Option<Vec<Division>> {
    let mut all = Vec::new();
    let mut open: Vec<(usize, Vec<ActorSet>)> = vec![(0, Vec::new())];
    while let Some((placed, groups)) = open.pop() {
        if placed == actors {
            for passes in passes(groups.len(), one_way)? {
                all.push((groups.clone(), passes));
            }
            if all.len() > MAX_DIVISIONS {
                return None;
            }
            continue;
        }
        // The next actor joins a group or begins one; pushed in reverse, so that what comes first is taken first.
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

/// All ways in which of each two groups one may hear the other, or neither; none if there are too many.
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

/// A division under other names, in its one form: groups by their first members, passes by their positions.
fn rename((groups, passes): &Division, renaming: &Renaming) -> Division {
    let mut renamed: Vec<(ActorSet, usize)> =
        groups.iter().enumerate().map(|(at, group)| (renaming.set(*group), at)).collect();
    renamed.sort_unstable_by_key(|(group, _)| group.trailing_zeros());
    let place = |old: u8| renamed.iter().position(|(_, at)| *at == usize::from(old)).expect("it is one of them") as u8;
    let mut renamed_passes: Vec<(u8, u8)> = passes.iter().map(|(from, to)| (place(*from), place(*to))).collect();
    renamed_passes.sort_unstable();
    (renamed.iter().map(|(group, _)| *group).collect(), renamed_passes)
}
