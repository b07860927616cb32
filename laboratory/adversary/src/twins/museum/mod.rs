//! Museum of bugs: defects of other systems, injected into quorate, and the tests that find them.
//!
//! An [`Exhibit`] is a [`Mutant`], or a configuration that cannot make progress, with a scenario that shows it and the
//! hunts that find it. Replicas without the bug must pass all the scenarios that were played to find it. Violations are
//! detected from the outside, by [`checker`](crate::twins::checker).
//!
//! Mutants are bugs without a scenario of their own: see [`UNSHOWN`].

mod ambush;
mod bounds;
mod by_rules;
mod catalogue;
mod certificates;
mod chains;
mod claims;
mod clients;
mod dice;
mod disks;
mod hunts;
mod recovery;
mod scene;
mod sessions;
mod spreading;
mod transfer;
mod unshown;
mod views;

pub use crate::twins::bugs::{Mutant, Rewriting, Rule};
pub use catalogue::{ABSENT, Absent, EXHIBITS};
pub use scene::{Ending, Play, Scenes};
pub use unshown::{UNSHOWN, Unshown};

use crate::twins::checker::{Property, Violation};
use quorate_consensus::config::ProtocolKind;

/// A bug and the tests that find it.
#[derive(Debug)]
pub struct Exhibit {
    /// Number in the list of bugs.
    pub number: u8,
    /// Letter that distinguishes bugs with the same number; otherwise empty.
    pub letter: &'static str,
    pub bug: &'static str,
    /// The system that had the bug, or the paper that describes it.
    pub source: &'static str,
    /// The injected bug. `None` if the bug lies in the choice of protocol and cluster size, or outside the replica's
    /// core; the scenario then contains it.
    pub mutant: Option<Mutant>,
    pub protocol: ProtocolKind,
    /// The property that the directed scenario violates.
    pub property: Property,
    /// The directed scenario, known to show the bug.
    pub scene: fn(&Play) -> Ending,
    /// Hunts that also find the bug, each with its budget in scenarios.
    pub hunts: &'static [(Hunt, u64)],
}

/// A hunt: scenarios by number, from 0.
#[derive(Clone, Copy, Debug)]
pub enum Hunt {
    /// Twins and partitions. Odd numbers have partitions and one-way links among honest replicas instead, in more
    /// rounds.
    Twins,
    /// In a few rounds a replica sends some of the others a message close to its real one, and in a few the network is
    /// partitioned: Winter et al., "Randomized testing of Byzantine fault tolerant algorithms", OOPSLA 2023 (ByzzFuzz),
    /// with its small-scope mutations.
    Mutation,
    /// Messages are lost and delayed, timers fire, replicas crash and restart, and one of four may misbehave.
    Random,
    /// Twins, partitions, and a client that sends each leader, or each next leader, bundles that no other replica has,
    /// in more rounds.
    Contest,
    /// A faulty client's bundle has valid MACs for some of the replicas in each view, to the end; in a few rounds the
    /// network is partitioned.
    Clients,
    /// A Byzantine replica assembles certificates from others' statements, is closer to all others than they are to
    /// each other, and stays active to the end.
    Ambush,
    /// The directed scenario with a crash after a number of actions.
    CrashSweep(fn(&Play, usize) -> Ending),
    /// One repeated misbehaviour after another, each until a state recurs.
    Lasso(fn(&Play, usize) -> Ending),
}

impl Hunt {
    /// Returns whether the hunt is exhaustive rather than a sample.
    fn is_sweep(self) -> bool {
        matches!(self, Hunt::CrashSweep(_) | Hunt::Lasso(_))
    }

    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Hunt::Twins => "twins",
            Hunt::Mutation => "mutation",
            Hunt::Random => "random",
            Hunt::Contest => "contest",
            Hunt::Clients => "clients",
            Hunt::Ambush => "ambush",
            Hunt::CrashSweep(_) => "crash-sweep",
            Hunt::Lasso(_) => "lasso",
        }
    }
}

/// Result of a hunt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caught {
    /// Name of the hunt; `directed` stands for the directed scenario.
    pub hunt: &'static str,
    /// Scenarios within which the bug must be found.
    pub budget: u64,
    /// Number of the first scenario that found the bug, from 1, and the violation.
    pub found: Option<(u64, Violation)>,
    /// Number of the first of these scenarios that fails without the bug, from 1, and the violation.
    pub sound: Option<(u64, Violation)>,
}

impl Caught {
    /// Returns whether the bug was found and no scenario fails without it.
    pub fn passed(&self) -> bool {
        self.found.is_some() && self.sound.is_none()
    }
}

impl Exhibit {
    /// Returns its number and letter, such as `8b`.
    pub fn name(&self) -> String {
        format!("{}{}", self.number, self.letter)
    }

    /// Plays the directed scenario with a transcript.
    pub fn transcript(&self, broken: bool) -> Ending {
        (self.scene)(&Play { record: true, ..self.how(broken) })
    }

    /// Plays the directed scenario, then each hunt whose budget is at most `max_scenarios`.
    pub fn visit(&self, max_scenarios: u64) -> Vec<Caught> {
        let hunts = self.hunts.iter().filter(|(_, budget)| *budget <= max_scenarios);
        let hunts = hunts.map(|(hunt, budget)| {
            self.look(hunt.name(), *budget, hunt.is_sweep(), &|how| hunt.scenes(self.protocol, how))
        });
        std::iter::once(self.directed()).chain(hunts).collect()
    }

    /// Plays the directed scenario with and without the bug.
    pub fn directed(&self) -> Caught {
        let scene = self.scene;
        self.look("directed", 1, true, &|how| Box::new(move |_| scene(&how).violation))
    }

    fn how(&self, broken: bool) -> Play {
        Play { mutant: self.mutant.filter(|_| broken), broken, record: false }
    }

    /// Plays scenarios with the bug until it is found, and then the same ones without the bug. For a sweep, plays all
    /// scenarios.
    fn look(&self, hunt: &'static str, budget: u64, sweep: bool, scenes: &dyn Fn(Play) -> Scenes) -> Caught {
        let first = |broken: bool, scenarios: u64| {
            let mut play = scenes(self.how(broken));
            (0..scenarios).find_map(|number| play(number).map(|violation| (number + 1, violation)))
        };
        let found = first(true, budget);
        let played = found.as_ref().filter(|_| !sweep).map_or(budget, |(number, _)| *number);
        Caught { hunt, budget, found, sound: first(false, played) }
    }
}
