//! Restart from the journal: restores the last snapshot and executes the blocks committed since.

use crate::devices::Restored;
use crate::durability::Memory;
use crate::error::HostError;
use crate::host::Host;
use crate::states::Sum;
use bytes::Bytes;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::seam::RecordId;
use quorate_consensus::{Action, Input, Protocol};
use quorate_storage::MemoryJournal;
use quorate_types::{Decoder, Height, Wire};

impl<P: Protocol> Host<P> {
    /// Restores the replica and its application to their state before the restart. Does nothing for a new replica.
    pub(crate) fn recover(&mut self, memory: Memory) -> Result<(), HostError> {
        if memory == Memory::New {
            return Ok(());
        }
        let Restored { height: restored, vouched } = self.devices.restore()?;
        if let Some((checkpoint, _)) = &vouched {
            self.take(Input::Kept { checkpoint: Box::new(checkpoint.clone()) })?;
        }
        let journal = std::mem::replace(&mut self.devices.journal, Box::new(MemoryJournal::default()));
        let (mut failure, mut sum) = (None, None);
        let replayed = journal.replay(&mut |id, bytes| {
            if failure.is_none() {
                failure = self.recall(RecordId(id), bytes, restored, &mut sum).err();
            }
        });
        self.devices.journal = journal;
        replayed?;
        failure.map_or(Ok(()), Err)?;
        if let Some((checkpoint, frontier)) = vouched.filter(|_| self.replica.committed_height() < restored) {
            // The state came from peers, or survived a lost journal, so the journal does not mention it.
            self.take(Input::Adopted { checkpoint: Box::new(checkpoint), frontier })?;
        }
        let (executed, committed) = (self.devices.executor.height(), self.replica.committed_height());
        if executed != committed {
            return Err(HostError::Torn { executed, committed });
        }
        if memory == Memory::Lost {
            self.take(Input::Forgot)?;
        }
        Ok(())
    }

    fn recall(&mut self, id: RecordId, bytes: &[u8], restored: Height, sum: &mut Option<Sum>) -> Result<(), HostError> {
        let mut input = Decoder::new(Bytes::copy_from_slice(bytes));
        let record =
            Record::decode(&mut input).map_err(|why| HostError::Unreadable { id: id.0, why: why.to_string() })?;
        match &record {
            Record::Summary { height, .. } => *sum = Some(Sum { first: id.0, last: id.0, height: *height }),
            Record::Commit { .. } => *sum = None,
            _ => {}
        }
        let ends_sum = record == Record::Summed;
        self.devices.states.added(bytes.len());
        if let Some(sum) = sum.take_if(|_| ends_sum) {
            self.devices.states.recalled(Sum { last: id.0, ..sum });
        }
        self.consume(Input::Recall { id, record });
        self.follows(restored)?;
        self.perform()
    }

    /// Fails unless the blocks to execute follow the restored state. A gap means that the snapshot before the journal
    /// is missing.
    fn follows(&self, restored: Height) -> Result<(), HostError> {
        let first = self.actions.iter().find_map(|action| match action {
            Action::Commit { block, .. } if block.height > restored => Some(block.height),
            _ => None,
        });
        let executed = self.devices.executor.height();
        match first.filter(|first| *first != executed.next()) {
            Some(first) => Err(HostError::Torn { executed, committed: Height(first.0 - 1) }),
            None => Ok(()),
        }
    }
}
