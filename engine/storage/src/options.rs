//! A journal's options: its sizes, and when a record counts as written.

use crate::error::JournalError;
use crate::format::SECTOR_BYTES;
use quorate_types::choice;

/// Default of [`JournalOptions::segment_bytes`].
pub const DEFAULT_SEGMENT_BYTES: u64 = 16 << 20;
/// Default of [`JournalOptions::capacity_bytes`].
pub const DEFAULT_CAPACITY_BYTES: u64 = 1 << 30;
/// Default of [`JournalOptions::waiting_bytes`].
pub const DEFAULT_WAITING_BYTES: usize = 64 << 20;
/// Minimum size of a segment, in bytes: its header and a group of a few records fit.
pub const MIN_SEGMENT_BYTES: u64 = 4 * SECTOR_BYTES as u64;
/// Maximum size of a segment, in bytes. Segments are read into memory completely.
const MAX_SEGMENT_BYTES: u64 = 1 << 30;
/// Maximum capacity in bytes: 1 PiB. A larger value is a typing error.
const MAX_CAPACITY_BYTES: u64 = 1 << 50;

choice!(
    /// Storage of a replica's promises.
    #[derive(Default)]
    JournalKind, "journal",
    /// In files, which survive the process.
    #[default]
    File = "file",
    /// In memory: a stopped replica must not be restarted. For experiments.
    Memory = "memory",
);

choice!(
    /// Whether a record must have reached the disk before it is reported durable.
    #[derive(Default)]
    Fsync, "fsync policy",
    /// Durable records survive a power loss.
    #[default]
    Always = "always",
    /// Durable records survive the process but not the machine. For experiments only: if more than f replicas lose
    /// power, the cluster may contradict acknowledged results, and a journal may be refused as damaged.
    Never = "never",
);

/// Method of making a write durable under [`Fsync::Always`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Flush {
    /// Opens the file with `O_DSYNC`, so that a group takes one system call. Faster on every disk measured so far.
    #[default]
    WriteThrough,
    /// Writes and then calls `fdatasync`.
    Fdatasync,
}

/// Sizes and policies of a journal.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Size of a segment in bytes, a multiple of 512; also limits the size of a record.
    pub segment_bytes: u64,
    /// Maximum size of all segments in bytes, including the one prepared ahead and those kept for reuse.
    pub capacity_bytes: u64,
    /// Maximum size of records in bytes that are appended but not durable, so that a stuck disk does not fill the
    /// memory.
    pub waiting_bytes: usize,
    pub fsync: Fsync,
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
    /// Refuses invalid sizes, with an error that names the key.
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
                    "`capacity_bytes` is {capacity_bytes}; it must be at least {}, for the segment in use and the next",
                    2 * segment_bytes
                ),
            });
        }
        if capacity_bytes > MAX_CAPACITY_BYTES {
            return Err(JournalError::Options {
                what: format!("`capacity_bytes` is {capacity_bytes}; it must be at most {MAX_CAPACITY_BYTES}"),
            });
        }
        Ok(())
    }
}
