//! What every journal is.

use crate::error::JournalError;
use bytes::Bytes;
use std::sync::Arc;

/// Ends the host's wait for the network, from another thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A write-ahead log of small records. One thread owns it.
///
/// An error of any call is final: nothing more becomes durable, and the owner stops.
pub trait Journal: Send {
    /// The kind's name, for results and errors.
    fn name(&self) -> &'static str;

    /// Takes a record in pieces, which are shared and not copied before they are written. Ids ascend strictly, gaps allowed; any other
    /// order is the caller's bug and panics. Never waits.
    fn append_pieces(&mut self, id: u64, pieces: Vec<Bytes>) -> Result<(), JournalError>;

    /// Takes a record, as [`Journal::append_pieces`] does.
    fn append(&mut self, id: u64, record: Bytes) -> Result<(), JournalError> {
        self.append_pieces(id, vec![record])
    }

    /// Whether what is reported durable outlives the process, so that a replica may be started again on it.
    fn outlives_process(&self) -> bool;

    /// Begins to make durable what was appended since the last call: one group, one write. Never waits. The host calls it once
    /// for all the records of a turn.
    fn commit(&mut self) -> Result<(), JournalError>;

    /// The highest id that is durable together with all below it, or none before the first. It never goes back. An error that
    /// befell a write in the background is reported here.
    fn durable(&mut self) -> Result<Option<u64>, JournalError>;

    /// What to call when [`Journal::durable`] has moved on by itself. A kind that completes within [`Journal::append`] or
    /// [`Journal::commit`] has no use for it.
    fn set_waker(&mut self, waker: Waker);

    /// Forgets all records below `first_kept`: a checkpoint has made them superfluous. Never waits. A kind that frees its room by
    /// whole segments may hand out some of them again after it was reopened.
    fn truncate(&mut self, first_kept: u64) -> Result<(), JournalError>;

    /// Hands out what is kept and durable, ascending by id: what a restarted replica reads. May wait for the disk.
    fn replay(&self, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), JournalError>;

    /// Forgets for good that the journal was repaired: the replica has learnt from the others in which views it may have spoken. Waits
    /// for the disk.
    fn accept_repair(&mut self) -> Result<(), JournalError>;
}
