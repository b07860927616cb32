//! Votes on the state after execution.

use super::{Protocol, Replica};
use crate::seam::{Envelope, To};
use bytes::Bytes;
use quorate_types::{Certificate, Digest, Domain, Height, Time, Vote};

impl<P: Protocol> Replica<P> {
    /// Votes for a checkpoint once everything up to it is executed.
    pub(super) fn on_executed(&mut self, now: Time, height: Height, state: Digest, kept: bool) {
        let meaning = self.parts.checkpoints.on_execution(height, state, kept);
        self.turn(now).act_on(meaning);
        if let Some(ballot) = self.parts.safety.checkpoint(height, state) {
            self.turn(now).cast_in_envelope(&ballot, To::All, Envelope::Checkpoint);
        }
    }

    /// Repeats the vote for the last checkpoint if it is not stable yet, because replicas that were down at the same
    /// time may have missed it.
    pub(super) fn repeat_checkpoint(&mut self) {
        let stable = self.parts.checkpoints.stable().subject.height;
        let Some(last) = self.parts.safety.last(Domain::Checkpoint).filter(|last| last.subject.height > stable) else {
            return;
        };
        let (subject, attachment, voter) = (last.subject, last.attachment.clone(), self.parts.me);
        let vote = Vote { subject, attachment, voter, signature: Bytes::new() };
        self.out.recast_envelope(To::All, Envelope::Checkpoint(vote));
    }

    /// Records that the host kept the state of a checkpoint across a restart.
    pub(super) fn on_kept(&mut self, checkpoint: Certificate) {
        self.parts.checkpoints.raise(checkpoint.clone());
        self.parts.checkpoints.offer(checkpoint);
        self.parts.store.keep_above(self.parts.checkpoints.needed_above());
    }
}
