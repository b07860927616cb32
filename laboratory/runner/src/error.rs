//! Errors of runs and of directories of results.

use quorate_types::Fault;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why experiments could not be run, read or written.
#[derive(Debug, Error)]
pub enum RunnerError {
    /// The user's input is invalid.
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot start {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    /// Hosts of `--on ssh`.
    #[error(transparent)]
    Hosts(Box<quorate_lab::bench::BenchError>),
    #[error("cannot write the table: {0}")]
    Table(String),
}

impl From<quorate_lab::bench::BenchError> for RunnerError {
    fn from(error: quorate_lab::bench::BenchError) -> RunnerError {
        RunnerError::Hosts(Box::new(error))
    }
}

impl RunnerError {
    /// Returns whether the input is wrong; false if the run itself failed.
    pub fn is_wrong_call(&self) -> bool {
        match self {
            RunnerError::Fault(_) | RunnerError::Read { .. } => true,
            RunnerError::Write { source, .. } => quorate_types::files::is_named_wrongly(source),
            RunnerError::Hosts(error) => error.is_wrong_call(),
            RunnerError::Start { .. } | RunnerError::Table(_) => false,
        }
    }

    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> RunnerError {
        |source| RunnerError::Read { path: path.into(), source }
    }

    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> RunnerError {
        |source| RunnerError::Write { path: path.into(), source }
    }
}
