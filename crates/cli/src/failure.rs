//! Exit status: 2 for whatever the caller gave, files included, 1 for what happened on the way, 3 for a replica's disk, its own or that of one it started; 128 and the
//! signal's number for a run that a signal ended.

use quorate_client::config::ConfigError;
use quorate_client::{ClientError, ConnectError};
use quorate_lab::bench::BenchError;
use quorate_lab::demo::DemoError;
use quorate_lab::inspect::InspectError;
use quorate_lab::sim::SimError;
use quorate_lab::spec::SpecError;
use quorate_lab::torture::TortureError;
use quorate_lab::twins::TwinsError;
use quorate_lab::twins::museum::MuseumError;
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

/// The status that the process ends with.
pub fn exit_code(outcome: &Result<(), Box<dyn Error>>, ends_with_signal: bool) -> ExitCode {
    match (outcome, interrupt::requested().filter(|_| ends_with_signal)) {
        (_, Some(signal)) => ExitCode::from(signal.exit_status()),
        (Ok(()), None) => ExitCode::SUCCESS,
        (Err(error), None) => ExitCode::from(status(&**error)),
    }
}

fn status(error: &(dyn Error + 'static)) -> u8 {
    let is_disk_trouble = error.downcast_ref().is_some_and(NodeError::is_disk_trouble)
        || error.downcast_ref().is_some_and(BenchError::is_disk_trouble)
        || error.downcast_ref().is_some_and(TortureError::is_disk_trouble)
        || error.downcast_ref().is_some_and(DemoError::is_disk_trouble);
    if is_disk_trouble {
        return DISK_TROUBLE_STATUS;
    }
    let is_wrong_call = error.is::<WrongCall>()
        || error.is::<SpecError>()
        || error.is::<MuseumError>()
        || error.is::<ConfigError>()
        || error.downcast_ref().is_some_and(NodeError::is_wrong_call)
        || error.downcast_ref().is_some_and(BenchError::is_wrong_call)
        || error.downcast_ref().is_some_and(SimError::is_wrong_call)
        || error.downcast_ref().is_some_and(TwinsError::is_wrong_call)
        || error.downcast_ref().is_some_and(TortureError::is_wrong_call)
        || error.downcast_ref().is_some_and(DemoError::is_wrong_call)
        || error.downcast_ref().is_some_and(InspectError::is_wrong_call)
        || matches!(
            error.downcast_ref(),
            Some(ClientError::PayloadTooLarge(_) | ClientError::Connect(ConnectError::Config(_)))
        );
    if is_wrong_call { WRONG_CALL } else { FAILED }
}
