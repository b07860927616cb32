//! Exit statuses: 2 for invalid input, including files; 1 for failures at run time; 3 for disk failures of a replica,
//! either this one or one started by this process; 101 for a panic; 128 plus the signal's number if a signal ended the
//! run.

use crate::backup::BackupError;
use crate::inspection::InspectError;
use crate::replicas::StatusError;
use quorate_client::config::ConfigError;
use quorate_client::{ClientError, ConnectError};
use quorate_crypto::key_file::KeyFileError;
use quorate_node::{DISK_TROUBLE_STATUS, NodeError, interrupt};
use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// Exit status of a wrong call, the same as clap's.
pub(crate) const WRONG_CALL: u8 = 2;
/// Exit status of all other failures.
pub(crate) const FAILED: u8 = 1;

/// Exit status after a panic, the same as the Rust runtime's.
const PANICKED: u8 = 101;

/// Error in the caller's input.
#[derive(Debug)]
pub struct WrongCall(pub String);

impl fmt::Display for WrongCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for WrongCall {}

pub fn wrong_call(why: impl fmt::Display) -> Box<dyn Error> {
    Box::new(WrongCall(why.to_string()))
}

/// Returns the error for an unusable path named by the caller: a wrong call, unless the disk or the system failed.
/// `what` describes the failed operation and its object.
pub fn cannot_use(what: impl fmt::Display, error: &io::Error) -> Box<dyn Error> {
    let why = format!("{what}: {error}");
    if quorate_types::files::is_named_wrongly(error) { wrong_call(why) } else { why.into() }
}

/// Kind of error, as shown by the exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    WrongCall,
    DiskTrouble,
    Panicked,
    Failed,
}

/// Returns the exit status of the process; `kind` classifies the errors known to it.
pub fn exit_code(
    outcome: &Result<(), Box<dyn Error>>,
    ends_with_signal: bool,
    kind: impl Fn(&(dyn Error + 'static)) -> Kind,
) -> ExitCode {
    match (outcome, interrupt::requested().filter(|_| ends_with_signal)) {
        (_, Some(signal)) => ExitCode::from(signal.exit_status()),
        (Ok(()), None) => ExitCode::SUCCESS,
        (Err(error), None) => ExitCode::from(match kind(&**error) {
            Kind::WrongCall => WRONG_CALL,
            Kind::DiskTrouble => DISK_TROUBLE_STATUS,
            Kind::Panicked => PANICKED,
            Kind::Failed => FAILED,
        }),
    }
}

/// Classifies the errors of the operators' commands.
pub fn kind(error: &(dyn Error + 'static)) -> Kind {
    if error.downcast_ref().is_some_and(NodeError::is_disk_trouble) {
        return Kind::DiskTrouble;
    }
    if matches!(error.downcast_ref(), Some(NodeError::Panicked { .. })) {
        return Kind::Panicked;
    }
    let is_wrong_call = error.is::<WrongCall>()
        || error.is::<ConfigError>()
        || error.downcast_ref().is_some_and(KeyFileError::is_wrong_call)
        || error.downcast_ref().is_some_and(StatusError::is_wrong_call)
        || error.downcast_ref().is_some_and(NodeError::is_wrong_call)
        || error.downcast_ref().is_some_and(InspectError::is_wrong_call)
        || error.downcast_ref().is_some_and(BackupError::is_wrong_call)
        || matches!(
            error.downcast_ref(),
            Some(ClientError::PayloadTooLarge(_) | ClientError::Connect(ConnectError::Config(_)))
        );
    if is_wrong_call { Kind::WrongCall } else { Kind::Failed }
}
