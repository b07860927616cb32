//! Kinds of faults and their facts.

use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::Tactic;
use quorate_consensus::config::Dissemination;
use quorate_types::limits::MAX_REPLICAS;
use quorate_types::{ReplicaId, Signers};

/// A kind of fault, with its parameter: a file in [`behaviours`](crate::byzantine::behaviours) and a line in its list.
pub trait Kind: Copy {
    const FACTS: Facts;
    /// The fault without an explicit parameter.
    const DEFAULT: Self;

    /// Parses the parameter that follows `=`.
    ///
    /// # Errors
    /// The problem, with a remedy.
    fn parse(parameter: &str) -> Result<Self, String> {
        let _ = parameter;
        Err(format!("`{}` takes no parameter", Self::FACTS.name))
    }

    /// Returns the text of the parameter.
    fn parameter(&self) -> String {
        String::new()
    }

    /// Returns the replicas named by the parameter.
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
    /// Whether it has distinct opportunities to lie, so that it may skip some of them (`KIND#K`).
    pub may_wait: bool,
    pub needs: Needs,
    /// Dissemination of commands with which the fault has an effect.
    pub dissemination: Dissemination,
    pub exposed_by: Exposure,
}

/// Precondition of a fault's effect, besides the protocol messages that the replica sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    Nothing,
    /// The passage of time.
    Time,
    /// Wall clocks by which replicas judge blocks.
    Clocks,
    /// Messages of others.
    Inputs,
    /// Replicas that request blocks or states.
    Questions,
    /// Replicas that were down for longer than the others keep blocks.
    States,
    /// Clients' commands.
    Load,
}

/// Strongest sign of an effective fault to an observer who does not know of it, ordered from weak to strong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exposure {
    /// Only the work that it causes: it is indistinguishable from an honest replica.
    Nothing,
    /// Views that time out, or commands that take longer: it may also be a slow replica, or have a bad link.
    Delays,
    /// Refused bundles, so that clients turn to other replicas.
    Refusals,
    /// Messages that no honest replica sends. Others drop them, and count them by reason.
    Drops,
    /// Two signed statements that contradict each other; see [`Evidence`](quorate_consensus::seam::Evidence). In
    /// protocols in which the fault is no contradiction, a weaker sign.
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

/// Maximum of a parameter: one day in milliseconds. Views and percentages have the same maximum.
const MAX_PARAMETER: u64 = 24 * 60 * 60 * 1000;

/// Parses a number as a parameter.
pub(crate) fn number(parameter: &str, least: u64) -> Result<u64, String> {
    match parameter.parse::<u64>() {
        Ok(number) if (least..=MAX_PARAMETER).contains(&number) => Ok(number),
        _ => Err(format!("`{parameter}` is not a whole number from {least} to {MAX_PARAMETER}")),
    }
}

/// Parses a replica as a parameter.
pub(crate) fn replica(text: &str) -> Result<ReplicaId, String> {
    match text.parse::<u16>() {
        Ok(replica) if usize::from(replica) < MAX_REPLICAS => Ok(ReplicaId(replica)),
        _ => Err(format!("`{text}` is not a replica; write replicas as in selective=2+3 or spread-to-one=2")),
    }
}
