//! Storage faults.

use quorate_types::{EpochId, ReplicaId};
use std::sync::Arc;
use thiserror::Error;

/// A storage fault. The replica stops, because if it continued, it could contradict its signed statements.
#[derive(Clone, Debug, Error)]
pub enum JournalError {
    #[error("the journal cannot {action} {what}: {source}; {}", help(source))]
    Io { action: &'static str, what: String, source: Arc<std::io::Error> },
    #[error(
        "record is {bytes} bytes, the journal takes at most {capacity}; help: raise `journal.segment_bytes` or lower \
         `consensus.batch_bytes`"
    )]
    TooLarge { bytes: usize, capacity: usize },
    #[error(
        "the journal takes {bytes} bytes of its limit of {capacity}: no room for another segment; help: raise \
         `journal.capacity_bytes` and start the replica again; the journal is cut only after the state is written to a \
         snapshot, so check that this succeeds"
    )]
    Full { bytes: u64, capacity: u64 },
    #[error(
        "{bytes} bytes of journal records wait for the disk, over the limit of {limit}: the disk hangs or is too slow; \
         help: replace it, lower the load, or raise `journal.waiting_bytes`, and start the replica again"
    )]
    Behind { bytes: usize, limit: usize },
    #[error(
        "the journal in {directory} is in use by {holder}; help: stop that process or use another directory; two \
         replicas with one identity would contradict each other"
    )]
    Locked { directory: String, holder: String },
    #[error(
        "{file} belongs to the genesis {}, not to {}: `cluster`, `faults`, a member's key, the order of the members, \
         `protocol`, `scheme` or `auth_profile` differs from the configuration that wrote it; help: restore that \
         configuration, or use another directory for a new cluster",
        found.0, expected.0
    )]
    ForeignEpoch { file: String, found: EpochId, expected: EpochId },
    #[error(
        "{file} belongs to replica {found}, not to replica {expected}; \
         help: start replica {found} on it, or use another directory"
    )]
    ForeignReplica { file: String, found: ReplicaId, expected: ReplicaId },
    #[error(
        "{file} has journal format {found}, this version reads format {expected}; help: use the version that wrote it, \
         or begin a new cluster with this one in another directory"
    )]
    Format { file: String, found: u16, expected: u16 },
    /// Data that was durable can no longer be read.
    #[error(
        "the journal is damaged: {file}, byte {offset}: {what}; help: the lost records may be votes, so they are not \
         skipped; `quorate inspect --dir D --repair` keeps the records before the damage and saves the rest aside"
    )]
    Corrupt { file: String, offset: u64, what: String },
    #[error(
        "cannot create the directory {path}: something else has this name, or that of a directory above it; help: \
         correct `directory` in [journal], or move it away"
    )]
    NotADirectory { path: String },
    #[error("invalid journal options: {what}")]
    Options { what: String },
}

impl JournalError {
    pub(crate) fn io(action: &'static str, what: impl Into<String>, source: std::io::Error) -> JournalError {
        JournalError::Io { action, what: what.into(), source: Arc::new(source) }
    }

    /// Returns whether the disk is at fault, so that a restart does not help until it is repaired. The data may be
    /// intact.
    pub fn is_disk_trouble(&self) -> bool {
        match self {
            JournalError::Io { source, .. } => !crate::are_exhausted(source),
            JournalError::Full { .. } | JournalError::Behind { .. } => true,
            _ => false,
        }
    }
}

/// Returns advice for an operator whose replica stopped because of this error.
pub fn help(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "help: make room on the disk and start the replica again; it continues where its journal ends"
        }
        Some(libc::EMFILE) => {
            "help: start the replica again; the disk is not at fault; if this recurs, raise the limit of open files \
             (`ulimit -n`)"
        }
        Some(libc::ENFILE) => {
            "help: start the replica again; the disk is not at fault, but the whole machine has no descriptor left \
             (`sysctl fs.file-max`)"
        }
        Some(libc::EROFS) => {
            "help: mount the file system for writing and start the replica again; if no one mounted it read-only, the \
             kernel did so after an error, which its log shows"
        }
        Some(libc::EACCES | libc::EPERM) => "help: give the replica's user access to it and start the replica again",
        Some(libc::EIO) => {
            "help: check the disk and the kernel's log; if the whole directory can be read, start the replica again on \
             it or on a copy of it; otherwise start it with its configuration and key alone, without `journal.new`: \
             it then asks its peers how far it may have voted"
        }
        _ => "help: fix this and start the replica again",
    }
}
