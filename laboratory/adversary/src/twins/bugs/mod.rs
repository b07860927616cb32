//! Bugs that can be injected into the replicas of a world.

mod rewriting;
mod rules;

pub(crate) use rewriting::Rewriter;
pub use rewriting::Rewriting;
pub use rules::Rule;
pub(crate) use rules::{
    ClaimBelieved, ClaimsOutliveEvidence, OpposedCarriedOver, TwoPhases, for_all_rules, for_rules, of_family, of_pbft,
};

use quorate_consensus::config::ProtocolKind;
use quorate_consensus::mutants::Bug;
use std::fmt;

/// An injected bug, by the method of injection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mutant {
    /// The rules of the protocol are replaced.
    Rule(Rule),
    /// Inputs or actions are changed between the replica and its host.
    Rewriting(Rewriting),
    /// A `bug!` in the core.
    Hook(Bug),
}

impl Mutant {
    /// Returns every mutant that has an exhibit.
    pub fn all() -> impl Iterator<Item = Mutant> {
        let rules = Rule::ALL.into_iter().map(Mutant::Rule);
        rules.chain(Rewriting::ALL.into_iter().map(Mutant::Rewriting)).chain(Bug::SHOWN.into_iter().map(Mutant::Hook))
    }

    /// Returns the only protocol that a mutant without a scenario of its own can be injected into, if it is a wrong
    /// rule or a rewriting of one protocol.
    pub fn protocol(self) -> Option<ProtocolKind> {
        match self {
            Mutant::Rule(Rule::LowestParentAccepted) => Some(ProtocolKind::Jolteon),
            Mutant::Rule(Rule::FirstOfAggregate) => Some(ProtocolKind::FastHotStuff),
            Mutant::Rule(Rule::LowestViewCarriedOver | Rule::LastSlotForgotten)
            | Mutant::Rewriting(Rewriting::ClaimsUnverified) => Some(ProtocolKind::Pbft),
            Mutant::Rule(Rule::LocksOneLower) => Some(ProtocolKind::SimpleHotStuff),
            Mutant::Rule(Rule::NoLockByCommit | Rule::NoLockByPrecommit) => Some(ProtocolKind::BasicHotStuff),
            _ => None,
        }
    }

    /// Returns every mutant without a scenario of its own.
    pub fn unshown() -> impl Iterator<Item = Mutant> {
        let rules = Rule::MUTANTS.into_iter().map(Mutant::Rule);
        rules
            .chain(Rewriting::MUTANTS.into_iter().map(Mutant::Rewriting))
            .chain(Bug::MUTANTS.into_iter().map(Mutant::Hook))
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
