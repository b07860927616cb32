//! Costs of the state machine's steps by input.

use quorate_consensus::{Envelope, Input, Message};
use serde::{Deserialize, Serialize};

/// Kinds of inputs whose steps differ in cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StepKind {
    /// A leader's proposal.
    Proposal,
    /// Any other message of the protocol: votes, timeouts, certificates.
    Statement,
    /// A peer's message outside the protocol, such as bundles or blocks.
    Other,
    /// Bundles of clients.
    Submit,
    Timeout,
    /// The answer to a verification.
    Verdict,
    Assembled,
    /// Everything else, such as the digest of a state.
    Host,
}

impl StepKind {
    pub const ALL: [StepKind; 8] = [
        StepKind::Proposal,
        StepKind::Statement,
        StepKind::Other,
        StepKind::Submit,
        StepKind::Timeout,
        StepKind::Verdict,
        StepKind::Assembled,
        StepKind::Host,
    ];

    /// Returns the key of its entry in the table.
    pub fn key(self) -> &'static str {
        match self {
            StepKind::Proposal => "proposal_us",
            StepKind::Statement => "statement_us",
            StepKind::Other => "other_us",
            StepKind::Submit => "submit_us",
            StepKind::Timeout => "timeout_us",
            StepKind::Verdict => "verdict_us",
            StepKind::Assembled => "assembled_us",
            StepKind::Host => "host_us",
        }
    }

    /// Returns the kind of an input.
    pub fn of<M: Message>(input: &Input<M>) -> StepKind {
        match input {
            Input::Receive { message: Envelope::Protocol(message), .. } if message.is_proposal() => StepKind::Proposal,
            Input::Receive { message: Envelope::Protocol(_), .. } => StepKind::Statement,
            Input::Receive { .. } => StepKind::Other,
            Input::Submit { .. } => StepKind::Submit,
            Input::Timeout(_) => StepKind::Timeout,
            Input::Verdict { .. } => StepKind::Verdict,
            Input::Assembled { .. } => StepKind::Assembled,
            _ => StepKind::Host,
        }
    }
}

/// Returns the number of bundles in an input.
pub fn bundles_in<M: Message>(input: &Input<M>) -> usize {
    match input {
        Input::Submit { bundles, .. } => bundles.len(),
        Input::Receive { message, .. } => message.bundles().len(),
        _ => 0,
    }
}

/// Costs of one step without the work on its bundles, in microseconds. An input without an entry costs `core.step_us`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepCosts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembled_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_us: Option<f64>,
}

impl StepCosts {
    /// Returns the entry of a kind.
    pub fn of(&self, kind: StepKind) -> Option<f64> {
        *self.to_owned().entry(kind)
    }

    /// Returns a mutable reference to a kind's entry.
    pub fn entry(&mut self, kind: StepKind) -> &mut Option<f64> {
        match kind {
            StepKind::Proposal => &mut self.proposal_us,
            StepKind::Statement => &mut self.statement_us,
            StepKind::Other => &mut self.other_us,
            StepKind::Submit => &mut self.submit_us,
            StepKind::Timeout => &mut self.timeout_us,
            StepKind::Verdict => &mut self.verdict_us,
            StepKind::Assembled => &mut self.assembled_us,
            StepKind::Host => &mut self.host_us,
        }
    }
}
