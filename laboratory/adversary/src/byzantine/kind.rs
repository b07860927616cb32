//! Kinds of faults and their facts.

use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::Tactic;
use quorate_consensus::config::Dissemination;
use quorate_types::limits::MAX_REPLICAS;
use quorate_types::{ReplicaId, Signers};

/// A kind of fault, with its parameter: a file of [`behaviours`](crate::byzantine::behaviours) and a line of its list.
pub trait Kind: Copy {
    const FACTS: Facts;
    /// The kind without a parameter in its text.
    const DEFAULT: Self;

    /// Parses the parameter that follows `=`.
    ///
    /// # Errors
    /// The problem and its remedy.
    fn parse(parameter: &str) -> Result<Self, String> {
        let _ = parameter;
        Err(format!("`{}` takes no parameter", Self::FACTS.name))
    }

    /// Returns the text of the parameter.
    fn parameter(&self) -> String {
        String::new()
    }

    /// Returns the replicas that the parameter names.
    fn named(&self) -> Signers {
        Signers::empty()
    }

    /// Returns the behaviour of a replica with this fault.
    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static;
}

/// Facts of a kind with any parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    pub name: &'static str,
    /// Whether the replica makes statements that an honest one would not. A replica that only omits, delays or repeats
    /// statements does not lie, and nothing can be proven against it. Parts of a state are not signed, so a forged part
    /// is not a statement.
    pub lies: bool,
    /// Whether it lies at certain opportunities, and may skip some of them (`KIND#K`).
    pub may_wait: bool,
    pub needs: Needs,
    /// How commands have to be spread for the fault to have an effect.
    pub dissemination: Dissemination,
    pub exposed_by: Exposure,
}

/// Precondition of a fault's effect, besides messages of the protocol that the replica sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    Nothing,
    /// Time that passes.
    Time,
    /// Messages of others.
    Inputs,
    /// Replicas that ask for blocks or states.
    Questions,
    /// Replicas that were away for longer than the others keep blocks.
    States,
    /// Clients' commands.
    Load,
}

/// Strongest sign of a fault to an observer who does not know of it, if it has an effect; the weakest kind of sign
/// first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exposure {
    /// Nothing but the work that it causes: nobody can tell it from an honest replica.
    Nothing,
    /// Views that end by a timeout, or commands that take longer: it may be a slow replica, or have a bad link.
    Delays,
    /// Bundles that the replica refuses, so that clients turn to others.
    Refusals,
    /// Messages that no honest replica sends: others drop them, and count them by reason.
    Drops,
    /// Two signed statements that contradict each other; see [`Evidence`](quorate_consensus::seam::Evidence). In
    /// protocols where the fault is no contradiction, less.
    Evidence,
}

impl Facts {
    /// Returns the facts of a kind that omits, delays or repeats messages.
    pub const fn omits(name: &'static str) -> Facts {
        Facts {
            name,
            lies: false,
            may_wait: false,
            needs: Needs::Nothing,
            dissemination: Dissemination::Client,
            exposed_by: Exposure::Nothing,
        }
    }

    /// Returns the facts of a kind that makes false statements.
    pub const fn lies(name: &'static str) -> Facts {
        Facts { lies: true, exposed_by: Exposure::Drops, ..Facts::omits(name) }
    }
}

/// Upper bound on parameters: a day in milliseconds. The same bound applies to views and percentages.
const MAX_PARAMETER: u64 = 24 * 60 * 60 * 1000;

/// Parses a parameter that is a number.
pub(crate) fn number(parameter: &str, least: u64) -> Result<u64, String> {
    match parameter.parse::<u64>() {
        Ok(number) if (least..=MAX_PARAMETER).contains(&number) => Ok(number),
        _ => Err(format!("`{parameter}` is not a whole number from {least} to {MAX_PARAMETER}")),
    }
}

/// Parses a parameter that is a replica.
pub(crate) fn replica(text: &str) -> Result<ReplicaId, String> {
    match text.parse::<u16>() {
        Ok(replica) if usize::from(replica) < MAX_REPLICAS => Ok(ReplicaId(replica)),
        _ => Err(format!("`{text}` is not a replica; write replicas as in selective=2+3 or spread-to-one=2")),
    }
}
