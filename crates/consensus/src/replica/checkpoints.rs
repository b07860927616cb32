//! Vouching for what was executed, and handing the state out to those who were away.

use super::{Protocol, Replica};
use crate::seam::{Action, Envelope, To};
use crate::transfer::Part;
use bytes::Bytes;
use quorate_types::{Certificate, Digest, Height, ReplicaId};

impl<P: Protocol> Replica<P> {
    /// All up to a checkpoint is executed.
    pub(super) fn executed(&mut self, height: Height, state: Digest, kept: bool) {
        let meaning = self.parts.checkpoints.executed(height, state, kept);
        self.out.judge_checkpoint(&mut self.parts, meaning);
        if let Some(ballot) = self.parts.safety.checkpoint(height, state) {
            self.out.cast_in_envelope(&mut self.parts, &ballot, To::All, Envelope::Checkpoint);
        }
    }

    /// The host has the state of a checkpoint from an earlier life.
    pub(super) fn keeps(&mut self, checkpoint: Certificate) {
        self.parts.checkpoints.raise(checkpoint.clone());
        self.parts.checkpoints.offer(checkpoint);
        self.parts.store.keep_above(self.parts.checkpoints.needed_above());
    }

    /// A part of a state that a peer has asked for; if it is gone, a newer one is offered.
    pub(super) fn state_read(&mut self, to: ReplicaId, height: Height, part: Part, bytes: Option<Bytes>) {
        if bytes.is_none() {
            self.out.offer_state(&self.parts, to, height);
        }
        let message = Envelope::StatePart { height, part, bytes: bytes.unwrap_or_default() };
        self.out.actions.push(Action::Send { to: To::One(to), message, after: None, sign: false });
    }
}
