//! Messages held back until the journal is durable.

use quorate_consensus::seam::RecordId;
use quorate_consensus::{Envelope, To};
use quorate_types::ReplicaId;
use std::collections::VecDeque;

/// A message sent by a replica, as requested by [`quorate_consensus::Action::Send`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing<M> {
    pub to: To,
    pub message: Envelope<M>,
    /// Whether the host must first sign the vote in the message.
    pub sign: bool,
}

/// The other replicas to which a message is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peers {
    Nobody,
    One(ReplicaId),
    Others,
}

/// Returns the other replicas to which `me` sends a message, and whether `me` receives it too.
pub fn split(to: To, me: ReplicaId) -> (Peers, bool) {
    match to {
        To::One(one) if one == me => (Peers::Nobody, true),
        To::One(one) => (Peers::One(one), false),
        To::All => (Peers::Others, true),
        To::Others => (Peers::Others, false),
    }
}

/// Holds messages until the records on which they depend are durable, and keeps them in order.
#[derive(Debug)]
pub struct DurabilityGate<M> {
    held: VecDeque<(RecordId, Outgoing<M>)>,
}

impl<M> Default for DurabilityGate<M> {
    fn default() -> Self {
        DurabilityGate { held: VecDeque::new() }
    }
}

impl<M> DurabilityGate<M> {
    /// Holds a message until `after` is durable.
    pub fn hold(&mut self, after: RecordId, message: Outgoing<M>) {
        self.held.push_back((after, message));
    }

    /// Returns the record for which the first message waits, if any.
    pub fn awaited(&self) -> Option<RecordId> {
        self.held.front().map(|(after, _)| *after)
    }

    /// Returns the number of messages held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns whether no message is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Removes and returns the first message if its record is durable. A message whose record is not durable also holds
    /// back the messages behind it.
    pub fn release(&mut self, durable: Option<RecordId>) -> Option<Outgoing<M>> {
        if durable < self.awaited() {
            return None;
        }
        self.held.pop_front().map(|(_, message)| message)
    }

    /// Drops all messages, as in a crash of the replica.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}
