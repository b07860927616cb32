//! Whose a journal is, how large it may be, and when it counts as written.

use crate::error::JournalError;
use crate::format::SECTOR_BYTES;
use quorate_types::{ClusterId, ReplicaId};

/// Bytes of one segment unless told otherwise.
pub const DEFAULT_SEGMENT_BYTES: u64 = 16 << 20;
/// Bytes that all segments together may take unless told otherwise.
pub const DEFAULT_CAPACITY_BYTES: u64 = 1 << 30;
/// Bytes of records that may wait for the disk unless told otherwise.
pub const DEFAULT_WAITING_BYTES: usize = 64 << 20;
/// The smallest segment: its header and a group of a few records.
pub const MIN_SEGMENT_BYTES: u64 = 4 * SECTOR_BYTES as u64;
/// The largest segment: it is read into memory as a whole.
const MAX_SEGMENT_BYTES: u64 = 1 << 30;

/// Whose promises a journal holds. It stands in every segment, so that a directory of another cluster or replica is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The replica in it.
    pub replica: ReplicaId,
}

/// Whether a record must have reached the disk before it is reported durable.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Fsync {
    /// It must: what is reported survives a loss of power.
    #[default]
    Always,
    /// It need not: what is reported survives the process, not the machine. For experiments only: a cluster of which more than f
    /// replicas lose power may contradict what it has acknowledged, and a journal may be refused as damaged afterwards.
    Never,
}

/// How a write is made durable under [`Fsync::Always`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Flush {
    /// The file is opened with `O_DSYNC`: one system call for each group. The faster one wherever it was measured.
    #[default]
    WriteThrough,
    /// A write and then `fdatasync`.
    Fdatasync,
}

/// Sizes and policies of a journal.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Bytes of one segment, a multiple of 512; also bounds one record.
    pub segment_bytes: u64,
    /// Bytes that all segments together may take, the one prepared ahead and those that wait to be used again included.
    pub capacity_bytes: u64,
    /// Bytes of records that may be appended and not yet durable: a disk that hangs must not fill the memory.
    pub waiting_bytes: usize,
    /// When a record counts as written.
    pub fsync: Fsync,
    /// How it is written.
    pub flush: Flush,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            segment_bytes: DEFAULT_SEGMENT_BYTES,
            capacity_bytes: DEFAULT_CAPACITY_BYTES,
            waiting_bytes: DEFAULT_WAITING_BYTES,
            fsync: Fsync::default(),
            flush: Flush::default(),
        }
    }
}

impl JournalOptions {
    /// Refuses sizes that make no journal, by the name of the key.
    pub fn validate(&self) -> Result<(), JournalError> {
        let JournalOptions { segment_bytes, capacity_bytes, .. } = *self;
        if !(MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&segment_bytes)
            || !segment_bytes.is_multiple_of(SECTOR_BYTES as u64)
        {
            return Err(JournalError::Options {
                what: format!(
                    "`segment_bytes` is {segment_bytes}; it must be a multiple of {SECTOR_BYTES} \
                     from {MIN_SEGMENT_BYTES} to {MAX_SEGMENT_BYTES}"
                ),
            });
        }
        if capacity_bytes < 2 * segment_bytes {
            return Err(JournalError::Options {
                what: format!(
                    "`capacity_bytes` is {capacity_bytes}; it must hold two segments of {segment_bytes} bytes, \
                     the one in use and the next"
                ),
            });
        }
        Ok(())
    }
}
