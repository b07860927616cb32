//! Why a journal cannot go on.

use quorate_types::{ClusterId, ReplicaId};
use std::sync::Arc;
use thiserror::Error;

/// A storage fault. A replica that meets one stops: going on could make it contradict what it has said.
#[derive(Clone, Debug, Error)]
pub enum JournalError {
    /// The operating system refused to read or write.
    #[error("the journal cannot {action} {what}: {source}; {}", mend(source))]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file or segment.
        what: String,
        /// What the operating system says.
        source: Arc<std::io::Error>,
    },
    /// One record is larger than the whole journal may be.
    #[error("a record of {bytes} bytes does not fit in a journal of {capacity} bytes; give the journal more room")]
    TooLarge {
        /// Bytes of the record.
        bytes: usize,
        /// Bytes that the journal may keep.
        capacity: usize,
    },
    /// The journal has used all the room it may take.
    #[error(
        "the journal takes {bytes} bytes and may take {capacity}, too few for one more segment; \
         raise `journal.capacity_bytes` and start the replica again. A journal is cut when the state has been written to a snapshot: \
         it grows for as long as that fails"
    )]
    Full {
        /// Bytes of all segments.
        bytes: u64,
        /// Bytes that they may take.
        capacity: u64,
    },
    /// The disk does not keep up.
    #[error(
        "{bytes} bytes of the journal's records wait for the disk, {limit} may; the disk hangs or is too slow for this load; \
         replace it, lower the load, or raise `journal.waiting_bytes`, and start the replica again"
    )]
    Behind {
        /// Bytes that would wait.
        bytes: usize,
        /// Bytes that may.
        limit: usize,
    },
    /// Another process has the directory.
    #[error(
        "the journal in {directory} is in use by {holder}; \
         two replicas with one identity would contradict each other: stop that one, or use another directory"
    )]
    Locked {
        /// The directory.
        directory: String,
        /// The process that holds it, as far as it can be told.
        holder: String,
    },
    /// The directory belongs to another cluster.
    #[error(
        "{file} belongs to cluster {}, not to cluster {}; use that cluster's configuration or another directory",
        found.0, expected.0
    )]
    ForeignCluster {
        /// The segment.
        file: String,
        /// Its cluster.
        found: ClusterId,
        /// The cluster that was asked for.
        expected: ClusterId,
    },
    /// The directory belongs to another replica of the cluster.
    #[error(
        "{file} belongs to replica {found}, not to replica {expected}; start replica {found} on it, or use another directory"
    )]
    ForeignReplica {
        /// The segment.
        file: String,
        /// Its replica.
        found: ReplicaId,
        /// The replica that was asked for.
        expected: ReplicaId,
    },
    /// The segment was written in a format that this version does not read.
    #[error(
        "{file} has journal format {found}, and this version reads format {expected}; use the version that wrote it"
    )]
    Format {
        /// The segment.
        file: String,
        /// Its format.
        found: u16,
        /// The format that is understood.
        expected: u16,
    },
    /// Something that was once durable cannot be read any more.
    #[error(
        "the journal is damaged: {file}, byte {offset}: {what}; what stands there may hold votes, so it is not skipped; \
         `quorate inspect --dir D --repair` keeps what is before it and saves the rest aside"
    )]
    Corrupt {
        /// The segment.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// Sizes that make no journal.
    #[error("the journal's options do not fit: {what}")]
    Options {
        /// Which and why.
        what: String,
    },
}

impl JournalError {
    pub(crate) fn io(action: &'static str, what: impl Into<String>, source: std::io::Error) -> JournalError {
        JournalError::Io { action, what: what.into(), source: Arc::new(source) }
    }

    /// Whether the disk refuses to work, so that starting again is in vain until it has been seen to. What it holds may be sound.
    pub fn is_disk_trouble(&self) -> bool {
        match self {
            JournalError::Io { source, .. } => !crate::are_exhausted(source),
            JournalError::Full { .. } | JournalError::Behind { .. } => true,
            _ => false,
        }
    }
}

/// What helps where the operating system refused to work on a file that a replica cannot do without.
pub fn mend(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "make room on the disk and start the replica again: it goes on where its journal ends"
        }
        Some(libc::EMFILE) => {
            "start the replica again: the disk is not at fault; if it happens again, raise the limit of open files (`ulimit -n`)"
        }
        Some(libc::ENFILE) => {
            "start the replica again: the disk is not at fault, but the whole machine has no descriptor left (`sysctl fs.file-max`)"
        }
        Some(libc::EROFS) => {
            "mount the file system for writing and start the replica again; if nobody mounted it otherwise, it has met an error, which \
             the kernel's log tells"
        }
        Some(libc::EACCES | libc::EPERM) => "give its user the right to it and start the replica again",
        Some(libc::EIO) => {
            "check the disk and the kernel's log. Start the replica again on it, or on a copy of its whole directory if all of it can be \
             read: what is there then decides, whatever seemed to be written before. If not, start it with its configuration and key \
             alone, without `journal.new`: it asks the others what it may have said"
        }
        _ => "mend that and start the replica again",
    }
}
