//! Exit status: 2 for whatever the caller gave, files included, 1 for what happened on the way, 3 for a replica's disk,
//! its own or that of one it started; 128 and the signal's number for a run that a signal ended.

use quorate_client::config::ConfigError;
use quorate_client::{ClientError, ConnectError};
use quorate_inspect::InspectError;
use quorate_node::{DISK_TROUBLE_STATUS, NodeError, interrupt};
use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// The exit status of a wrong call, which is clap's too.
const WRONG_CALL: u8 = 2;
/// That of everything else.
const FAILED: u8 = 1;

/// What the caller gave cannot be used.
#[derive(Debug)]
pub struct WrongCall(pub String);

impl fmt::Display for WrongCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for WrongCall {}

/// An error of a call that cannot be done as it is.
pub fn wrong_call(why: impl fmt::Display) -> Box<dyn Error> {
    Box::new(WrongCall(why.to_string()))
}

/// What the exit status tells of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    WrongCall,
    DiskTrouble,
    Failed,
}

/// The status that the process ends with; `kind` tells what it knows of an error.
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
            Kind::Failed => FAILED,
        }),
    }
}

/// What the errors of the operators' commands are.
pub fn kind(error: &(dyn Error + 'static)) -> Kind {
    if error.downcast_ref().is_some_and(NodeError::is_disk_trouble) {
        return Kind::DiskTrouble;
    }
    let is_wrong_call = error.is::<WrongCall>()
        || error.is::<ConfigError>()
        || error.downcast_ref().is_some_and(NodeError::is_wrong_call)
        || error.downcast_ref().is_some_and(InspectError::is_wrong_call)
        || matches!(
            error.downcast_ref(),
            Some(ClientError::PayloadTooLarge(_) | ClientError::Connect(ConnectError::Config(_)))
        );
    if is_wrong_call { Kind::WrongCall } else { Kind::Failed }
}
