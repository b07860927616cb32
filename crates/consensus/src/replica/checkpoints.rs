//! Votes on the state after execution.

use super::{Protocol, Replica};
use crate::seam::{Envelope, To};
use quorate_types::{Certificate, Digest, Height};

impl<P: Protocol> Replica<P> {
    /// Votes for a checkpoint once everything up to it is executed.
    pub(super) fn executed(&mut self, height: Height, state: Digest, kept: bool) {
        let meaning = self.parts.checkpoints.executed(height, state, kept);
        self.out.judge_checkpoint(&mut self.parts, meaning);
        if let Some(ballot) = self.parts.safety.checkpoint(height, state) {
            self.out.cast_in_envelope(&mut self.parts, &ballot, To::All, Envelope::Checkpoint);
        }
    }

    /// Notes that the host kept the state of a checkpoint across a restart.
    pub(super) fn keeps(&mut self, checkpoint: Certificate) {
        self.parts.checkpoints.raise(checkpoint.clone());
        self.parts.checkpoints.offer(checkpoint);
        self.parts.store.keep_above(self.parts.checkpoints.needed_above());
    }
}
