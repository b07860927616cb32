//! Errors of a signer.

use quorate_storage::JournalError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Advice for a signer without a record.
const REBUILD: &str = "stop the replica, and rebuild the record from its journal: `signer rebuild`";

/// Reason why a signer cannot start or has stopped.
#[derive(Debug, Error)]
pub enum SignerError {
    /// Without its record, it could contradict its signatures.
    #[error("the record of signed statements in {} is lost, so nothing is signed; help: {REBUILD}", .0.display())]
    Lost(PathBuf),
    #[error(
        "the record of signed statements is damaged, so nothing is signed: {file}, byte {offset}: {what}; help: \
         {REBUILD}"
    )]
    Damaged { file: String, offset: u64, what: String },
    /// The replica's journal is lost, and with it its promises.
    #[error(
        "the replica's journal {} is lost, so nobody knows what it has signed; help: restore its key, let it recover \
         without a signer (see \"A lost journal\" in OPERATIONS.md), and try again",
        .0.display()
    )]
    Forgetful(PathBuf),
    #[error("{} exists; help: a record of signed statements is never overwritten: move it away", .0.display())]
    Exists(PathBuf),
    #[error("the record of signed statements has an unreadable entry {id}, so nothing is signed; help: {REBUILD}")]
    Unreadable { id: u64 },
    #[error(
        "the record of signed statements in {directory} is in use by {holder}; help: stop that signer: two with one \
         key would contradict each other"
    )]
    InUse { directory: String, holder: String },
    #[error("the record of signed statements cannot be used: {0}")]
    Record(#[source] JournalError),
    #[error("cannot listen on {}: {source}; help: {help}", path.display())]
    Listen { path: PathBuf, source: io::Error, help: &'static str },
    #[error(
        "the socket passed by systemd is unusable: {0}; help: pass one stream socket by `ListenStream=` with the path \
         of `socket` in [signer]"
    )]
    Passed(io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

impl From<JournalError> for SignerError {
    fn from(error: JournalError) -> SignerError {
        match error {
            JournalError::Corrupt { file, offset, what } => SignerError::Damaged { file, offset, what },
            JournalError::Locked { directory, holder } => SignerError::InUse { directory, holder },
            error => SignerError::Record(error),
        }
    }
}

impl SignerError {
    /// Returns whether a restart cannot help before somebody has acted.
    pub fn is_wrong_call(&self) -> bool {
        use SignerError::{Damaged, Exists, Forgetful, Lost, Passed, Unreadable};
        matches!(self, Lost(_) | Forgetful(_) | Exists(_) | Damaged { .. } | Unreadable { .. } | Passed(_))
    }

    /// Returns whether the disk is at fault.
    pub fn is_disk_trouble(&self) -> bool {
        matches!(self, SignerError::Record(error) if error.is_disk_trouble())
    }
}
