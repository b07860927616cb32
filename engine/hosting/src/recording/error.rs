//! Errors of writing and reading recordings.

use crate::recording::header::FORMAT;
use quorate_types::DecodeError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Fault of a recording, with its file.
#[derive(Debug, Error)]
#[error("{}: {fault}", path.display())]
pub struct RecordingError {
    pub path: PathBuf,
    pub fault: Fault,
}

/// Reason why a recording cannot be written, read or replayed.
#[derive(Debug, Error)]
pub enum Fault {
    #[error("cannot write the recording: {0}; help: make room, name another file, or run without a recording")]
    Write(#[source] io::Error),
    #[error("cannot read the recording: {0}; help: name a file that `--record` wrote")]
    Read(#[source] io::Error),
    #[error("this is not a recording; help: name a file that `--record` wrote")]
    Foreign,
    #[error(
        "the recording has format {0}, quorate {version} reads only format {FORMAT}; \
         help: replay it with the quorate that recorded it, or record again",
        version = env!("CARGO_PKG_VERSION")
    )]
    Format(u64),
    #[error("invalid header in the recording: {0}; help: record again")]
    Header(String),
    /// Chunk number (the header is chunk 0), its offset in bytes, and the number of steps before it.
    #[error(
        "the recording is damaged: chunk {chunk}, at byte {at}, {why}; \
         help: replay the {steps} steps before it with `--until`"
    )]
    Damaged { chunk: u64, at: u64, why: String, steps: u64 },
    #[error("step {step} of the recording is not a valid input of its protocol: {source}; help: record again")]
    Input { step: u64, source: DecodeError },
    #[error("step {step} of the recording belongs to replica {replica}, which has not started; help: record again")]
    NotBegun { step: u64, replica: u16 },
}

impl Fault {
    pub(crate) fn of(self, path: &Path) -> RecordingError {
        RecordingError { path: path.to_owned(), fault: self }
    }
}
