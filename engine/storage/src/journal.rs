//! The interface of all journals.

use crate::error::JournalError;
use bytes::Bytes;
use quorate_types::status::WriteTimes;
use std::sync::Arc;

/// Wakes the host from its wait for the network; called from another thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A write-ahead log of small records, owned by one thread.
///
/// Any error is final: nothing more becomes durable, and the owner stops.
pub trait Journal: Send {
    /// Returns the name of this kind of journal, used in results and errors.
    fn name(&self) -> &'static str;

    /// Appends a record in pieces, which are shared, and copied only when written. Never blocks.
    ///
    /// # Panics
    /// Unless `id` is above all earlier ones; gaps are allowed.
    fn append_pieces(&mut self, id: u64, pieces: Vec<Bytes>) -> Result<(), JournalError>;

    /// Appends a record, as [`Journal::append_pieces`] does.
    fn append(&mut self, id: u64, record: Bytes) -> Result<(), JournalError> {
        self.append_pieces(id, vec![record])
    }

    /// Returns whether durable records survive the process, so that a replica may be restarted from them.
    fn outlives_process(&self) -> bool;

    /// Starts writing the records appended since the last call as one group. Never blocks. The host calls it once per
    /// iteration.
    fn commit(&mut self) -> Result<(), JournalError>;

    /// Returns the highest id that is durable together with all ids below it; `None` before the first. Never decreases.
    /// Also reports errors of background writes.
    fn durable(&mut self) -> Result<Option<u64>, JournalError>;

    /// Returns the durations of the latest writes; `None` for kinds that do not measure them.
    fn write_times(&self) -> Option<WriteTimes> {
        None
    }

    /// Sets the function to call when [`Journal::durable`] advances in the background. Ignored by kinds that complete
    /// within [`Journal::append`] or [`Journal::commit`].
    fn set_waker(&mut self, waker: Waker);

    /// Drops all records below `first_kept`, which a checkpoint covers. Never blocks. A kind that frees whole segments
    /// may replay some of these records after it is reopened.
    fn truncate(&mut self, first_kept: u64) -> Result<(), JournalError>;

    /// Visits the kept durable records, ascending by id, for a replica that restarts. May block on the disk.
    fn replay(&self, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), JournalError>;

    /// Removes the mark of a repair, after peers have reported the views in which the replica may have voted. Blocks on
    /// the disk.
    fn accept_repair(&mut self) -> Result<(), JournalError>;
}
