//! Panics of applications: which one panicked, where, and what an operator can do. quorate's own code is not involved.

use quorate_types::text::escaped;
use quorate_types::{ClientId, Digest, Height};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use thiserror::Error;

/// Maximum length of a reported panic message, in characters: replies to clients include it, too.
const MAX_MESSAGE_CHARS: usize = 300;

/// Call of an application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// Execution of a client's command.
    Command { client: ClientId, sequence: u64 },
    /// Its notification that a bundle was executed.
    Bundle(Digest),
    /// Estimating, freezing or encoding its state.
    Snapshot,
    /// Restoring a snapshot.
    Restore,
    /// Answering a query.
    Query,
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Command { client, sequence } => write!(out, "on command {sequence} of client {client}"),
            Call::Bundle(digest) => write!(out, "after the commands of bundle {digest}"),
            Call::Snapshot => write!(out, "when it made a snapshot of its state"),
            Call::Restore => write!(out, "when it restored a snapshot"),
            Call::Query => write!(out, "on a question"),
        }
    }
}

impl Call {
    /// Returns the consequence of a panic, and advice.
    fn consequence(&self) -> &'static str {
        match self {
            Call::Command { .. } | Call::Bundle(_) => {
                "the command is in the agreed order, so every replica with this application ends there, also after a \
                 restart; help: start all replicas with a version of the application that executes the command without \
                 a panic, and with the same result on all; keep all journals"
            }
            Call::Snapshot => {
                "other replicas with this application may end likewise, also after a restart; \
                 help: start all replicas with a version of the application that makes the same snapshot on all; keep \
                 all journals"
            }
            Call::Restore => {
                "help: start this replica with a version of the application that reads the snapshot; keep the journal \
                 and the snapshots"
            }
            Call::Query => {
                "nothing was changed; help: ask in another way, or report the question to the application's authors"
            }
        }
    }
}

/// Panic of an application. Unless it was answering a query, its state is unknown, so it must not be used again.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the application {application} panicked at height {height}, {call}: {message}; {}", call.consequence())]
pub struct ApplicationPanic {
    pub application: &'static str,
    /// Height of the block being executed, or of the state.
    pub height: Height,
    pub call: Call,
    /// Message of the panic: its first characters, escaped for terminals.
    pub message: String,
}

impl ApplicationPanic {
    /// Attributes a caught panic to a call. Keeps an earlier attribution.
    pub(crate) fn of(
        application: &'static str,
        height: Height,
        call: Call,
        panic: Box<dyn Any + Send>,
    ) -> Box<ApplicationPanic> {
        panic.downcast::<ApplicationPanic>().unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let message = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let message = message.unwrap_or_else(|| "no message".to_owned());
            let message = escaped(&message).chars().take(MAX_MESSAGE_CHARS).collect();
            Box::new(ApplicationPanic { application, height, call, message })
        })
    }
}

/// Runs a call of an application.
///
/// # Errors
/// If it panics.
pub(crate) fn guard<T>(
    application: &'static str,
    height: Height,
    call: Call,
    work: impl FnOnce() -> T,
) -> Result<T, Box<ApplicationPanic>> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| ApplicationPanic::of(application, height, call, panic))
}

/// Runs a call of an application. A panic continues as an [`ApplicationPanic`].
pub(crate) fn named<T>(application: &'static str, height: Height, call: Call, work: impl FnOnce() -> T) -> T {
    guard(application, height, call, work).unwrap_or_else(|panic| resume_unwind(panic))
}
