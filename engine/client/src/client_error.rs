//! Errors of clients.

use crate::connect::ConnectError;
use crate::distrust::Distrusted;
use crate::reach::Reach;
use crate::session::frame_too_long;
use quorate_types::limits::MAX_PAYLOAD_BYTES;
use quorate_types::parameters::list;
use quorate_types::{Difference, Height, Signers};
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Reason why a client has no result.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{reach}; {needed} are needed to trust a reply; help: start the missing ones, or correct their addresses")]
    Unreachable { reach: Reach, needed: usize },
    #[error(
        "the cluster runs with `reply = \"none\"`, which is for measurements: its replicas send no results; help: set \
         `reply = \"each\"` on all replicas and clients"
    )]
    NoReplies,
    #[error("a command of {0} bytes is over the limit of {MAX_PAYLOAD_BYTES} bytes; help: split it")]
    PayloadTooLarge(usize),
    /// No result in time. The command may have been executed, or may be executed later.
    #[error(transparent)]
    Timeout(Box<NoQuorum>),
    #[error("the command was executed, but the replicas no longer keep its result; help: query the state instead")]
    ResultForgotten,
    #[error(
        "the command may or may not have been executed, and will not be from now on: other clients' sessions evicted \
         its session; help: check the state before you send it again"
    )]
    OutcomeUnknown,
    #[error(
        "the replicas refused the command because the results of its block are too large: it had no effect, \
         unless someone sends the same bundle again before height {until}"
    )]
    Refused { until: Height },
    /// f+1 replicas refused the command permanently, so at least one honest one did.
    #[error("the replicas refused the command: {0}")]
    Rejected(String),
    /// f+1 replicas have different values in their configuration.
    #[error("client.toml does not fit the cluster: {}; help: set it as it is there", list(.0))]
    Configuration(Vec<Difference>),
    /// The frame was not sent, because f+1 replicas would close the link of a client that sends such a long frame.
    #[error("{}", frame_too_long(*.bytes, *.limit))]
    FrameTooLong { bytes: usize, limit: usize },
    /// f+1 replicas refused to answer this client's queries.
    #[error("the replicas do not answer this client's questions: {0}")]
    Unanswered(String),
    /// The replicas were overloaded until the timeout, and refused the command each time. A faulty replica may still
    /// have it executed later.
    #[error(
        "the cluster is overloaded: it refused the command for {after:?} ({refusal}); help: try again later, and check \
         before you send the command again"
    )]
    Busy { after: Duration, refusal: String },
    #[error("the client's transport failed: {0}")]
    Transport(#[from] io::Error),
    /// The client was closed before the command had a result. The command may be executed later.
    #[error("the client has ended: {0}; help: check before you send the command again")]
    Ended(String),
}

/// Too few equal replies before the timeout.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("no {needed} equal replies within {after:?} ({}; {reach}{}{}){}",
    answers(*.distinct, .answered),
    if .distrusted.is_empty() { String::new() } else { format!("; {distrusted}") },
    .refusal.as_ref().map_or(String::new(), |why| format!("; the last refusal was from {why}")),
    if *.ordered { ": the command may still be executed; help: check before you send it again" }
    else { "; help: try again" })]
/// Fewer equal replies than needed arrived in time.
pub struct NoQuorum {
    /// Whether the request was a command, rather than a query.
    pub ordered: bool,
    pub after: Duration,
    /// Number of equal replies needed.
    pub needed: usize,
    pub answered: Signers,
    /// Number of different replies.
    pub distinct: usize,
    pub reach: Reach,
    /// Replicas whose frames did not count.
    pub distrusted: Distrusted,
    /// The last refusal and its sender.
    pub refusal: Option<String>,
}

fn answers(distinct: usize, answered: &Signers) -> String {
    let names: Vec<String> = answered.iter().map(|replica| replica.to_string()).collect();
    match names.len() {
        0 => "no replica answered".to_owned(),
        1 => format!("only replica {} answered", names[0]),
        _ => format!("{distinct} different replies from replicas {}", names.join(", ")),
    }
}
