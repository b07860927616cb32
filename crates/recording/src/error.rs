//! Why a recording cannot be written or read.

use crate::header::FORMAT;
use quorate_types::DecodeError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What is wrong with a recording: which file, where, and what to do.
#[derive(Debug, Error)]
#[error("{}: {fault}", path.display())]
pub struct RecordingError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What can be wrong with a recording.
#[derive(Debug, Error)]
pub enum Fault {
    /// It cannot be written.
    #[error("the recording cannot be written: {0}; make room, name another place, or run without a recording")]
    Write(#[source] io::Error),
    /// It cannot be read.
    #[error("the recording cannot be read: {0}; name a file that `--record` wrote")]
    Read(#[source] io::Error),
    /// It is something else.
    #[error("this is no recording; name a file that `--record` wrote")]
    Foreign,
    /// It is of another time.
    #[error(
        "this is a recording of format {0}, and this quorate ({version}) reads format {FORMAT} alone; \
         replay it with the quorate that recorded it, or record again",
        version = env!("CARGO_PKG_VERSION")
    )]
    Format(u64),
    /// Its header says nothing that could be run.
    #[error("the recording's header is of no use: {0}; record again")]
    Header(String),
    /// A chunk is not as it was written.
    #[error(
        "the recording is damaged: chunk {chunk}, at byte {at}, {why}; the {steps} steps before it can be replayed with --until"
    )]
    Damaged {
        /// Which chunk; the header is number 0.
        chunk: u64,
        /// Where it begins.
        at: u64,
        /// What is wrong with it.
        why: String,
        /// Steps before it.
        steps: u64,
    },
    /// A step is not what a replica takes.
    #[error("step {step} of the recording is no input of its protocol: {source}; record again")]
    Input {
        /// Which.
        step: u64,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The steps belong to nobody.
    #[error("step {step} of the recording is replica {replica}'s, which has not begun; record again")]
    NotBegun {
        /// Which.
        step: u64,
        /// Whose.
        replica: u16,
    },
}

impl Fault {
    pub(crate) fn of(self, path: &Path) -> RecordingError {
        RecordingError { path: path.to_owned(), fault: self }
    }
}
