//! The museum of bugs: defects that others had, put back into quorate, and what finds them.
//!
//! An [`Exhibit`] is a [`Mutant`], or a configuration that cannot work, with a scenario that shows it and the hunts that find it. Replicas without the bug have to pass every scenario that was played on the way to finding it. What is wrong is
//! judged from the outside, by [`judge`](crate::judge).

mod ambush;
mod bounds;
mod catalogue;
mod certificates;
mod chains;
mod dice;
mod hunts;
mod recovery;
pub(crate) mod rewriting;
mod rules;
pub mod scene;
mod sessions;
mod transfer;
mod views;

pub use catalogue::{ABSENT, Absent, EXHIBITS};
pub use hunts::{Drawn, Scenes};
pub use rewriting::Rewriting;
pub use rules::Rule;

use crate::judge::{Complaint, Law};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::mutants::Bug;
use scene::{Ending, Play};
use std::fmt;

/// A bug that replicas can be given, by how it is put back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mutant {
    /// Other rules in place of the protocol's.
    Rule(Rule),
    /// What a replica hears, or does, is changed between it and its host.
    Rewriting(Rewriting),
    /// A `bug!` in the core.
    Hook(Bug),
}

impl Mutant {
    /// Every one that has an exhibit.
    pub fn all() -> impl Iterator<Item = Mutant> {
        let rules = Rule::ALL.into_iter().map(Mutant::Rule);
        rules.chain(Rewriting::ALL.into_iter().map(Mutant::Rewriting)).chain(Bug::SHOWN.into_iter().map(Mutant::Hook))
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutant::Rule(rule) => write!(f, "{rule:?}"),
            Mutant::Rewriting(rewriting) => write!(f, "{rewriting:?}"),
            Mutant::Hook(bug) => write!(f, "{bug:?}"),
        }
    }
}

/// A bug, and what finds it.
#[derive(Debug)]
pub struct Exhibit {
    /// Its number in the list of bugs.
    pub number: u8,
    /// A letter, where several bugs have one number; else empty.
    pub letter: &'static str,
    /// What is wrong.
    pub bug: &'static str,
    /// Who had it, or described it.
    pub source: &'static str,
    /// What is put back; none if the bug is the choice of this protocol for a cluster of that shape, or is not in the replica's core: then
    /// the scenario has it.
    pub mutant: Option<Mutant>,
    /// The protocol that has it.
    pub protocol: ProtocolKind,
    /// What it breaks in its own scenario.
    pub law: Law,
    /// The scenario that is known to show it.
    pub scene: fn(&Play) -> Ending,
    /// What finds it besides, within so many scenarios.
    pub hunts: &'static [(Hunt, u64)],
}

/// A hunt: scenarios by number, from 0.
#[derive(Clone, Copy, Debug)]
pub enum Hunt {
    /// Twins, partitions, one-way links.
    Twins,
    /// Random mutation of messages in a few rounds.
    Mutation,
    /// Random simulation.
    Random,
    /// A liar that makes certificates and is nearer than others, and stays at work.
    Ambush,
    /// The exhibit's own scenario with a crash after so many actions.
    CrashSweep(fn(&Play, usize) -> Ending),
    /// One misbehaviour after the other that repeats itself, until a state does.
    Lasso(fn(&Play, usize) -> Ending),
}

impl Hunt {
    /// Whether its scenarios are all that there are, and not a sample.
    fn is_sweep(self) -> bool {
        matches!(self, Hunt::CrashSweep(_) | Hunt::Lasso(_))
    }

    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Hunt::Twins => "twins",
            Hunt::Mutation => "mutation",
            Hunt::Random => "random",
            Hunt::Ambush => "ambush",
            Hunt::CrashSweep(_) => "crash-sweep",
            Hunt::Lasso(_) => "lasso",
        }
    }
}

/// What came of a hunt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caught {
    /// The name of the hunt; `directed` is the exhibit's own scenario.
    pub hunt: &'static str,
    /// Within how many scenarios the bug has to be found.
    pub budget: u64,
    /// In which it was found, from 1, and what was seen.
    pub found: Option<(u64, Complaint)>,
    /// In which of the same scenarios something is wrong without the bug, from 1, and what.
    pub sound: Option<(u64, Complaint)>,
}

impl Caught {
    /// The bug was found, and nothing else was.
    pub fn passed(&self) -> bool {
        self.found.is_some() && self.sound.is_none()
    }
}

impl Exhibit {
    /// Its number and letter: `8b`.
    pub fn name(&self) -> String {
        format!("{}{}", self.number, self.letter)
    }

    /// Plays the scenario that is known to show it, and writes down what happens.
    pub fn transcript(&self, broken: bool) -> Ending {
        (self.scene)(&Play { record: true, ..self.how(broken) })
    }

    /// Looks for it: the directed scenario first, then each hunt that may take so many scenarios at most.
    pub fn visit(&self, max_scenarios: u64) -> Vec<Caught> {
        let hunts = self.hunts.iter().filter(|(_, budget)| *budget <= max_scenarios);
        let hunts = hunts
            .map(|(hunt, budget)| self.look(hunt.name(), *budget, hunt.is_sweep(), &|how| self.scenes(*hunt, how)));
        std::iter::once(self.directed()).chain(hunts).collect()
    }

    /// Plays the scenario that is known to show it, with and without the bug.
    pub fn directed(&self) -> Caught {
        let scene = self.scene;
        self.look("directed", 1, true, &|how| Box::new(move |_| scene(&how).complaint))
    }

    fn how(&self, broken: bool) -> Play {
        Play { mutant: self.mutant.filter(|_| broken), broken, record: false }
    }

    fn scenes(&self, hunt: Hunt, how: Play) -> Scenes {
        match hunt {
            Hunt::Twins => Drawn::Twins.scenes(self.protocol, how),
            Hunt::Mutation => Drawn::Mutation.scenes(self.protocol, how),
            Hunt::Random => Drawn::Random.scenes(self.protocol, how),
            Hunt::Ambush => Drawn::Ambush.scenes(self.protocol, how),
            Hunt::CrashSweep(scene) | Hunt::Lasso(scene) => {
                Box::new(move |number| scene(&how, number as usize).complaint)
            }
        }
    }

    /// Plays scenarios with the bug until it is found, and then the same without it; of a sweep, all.
    fn look(&self, hunt: &'static str, budget: u64, sweep: bool, scenes: &dyn Fn(Play) -> Scenes) -> Caught {
        let first = |broken: bool, scenarios: u64| {
            let mut play = scenes(self.how(broken));
            (0..scenarios).find_map(|number| play(number).map(|complaint| (number + 1, complaint)))
        };
        let found = first(true, budget);
        let played = found.as_ref().filter(|_| !sweep).map_or(budget, |(number, _)| *number);
        Caught { hunt, budget, found, sound: first(false, played) }
    }
}
