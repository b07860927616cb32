//! Messages that wait for the journal.

use quorate_consensus::seam::RecordId;
use quorate_consensus::{Envelope, To};
use quorate_types::ReplicaId;
use std::collections::VecDeque;

/// A message that leaves the replica, as [`quorate_consensus::Action::Send`] asks for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing<M> {
    pub to: To,
    pub message: Envelope<M>,
    /// Whether the host signs the vote in it first.
    pub sign: bool,
}

/// To which other replicas a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peers {
    Nobody,
    One(ReplicaId),
    Others,
}

/// Returns to which others a message of `me` goes, and whether it comes back to `me` through the loopback.
pub fn split(to: To, me: ReplicaId) -> (Peers, bool) {
    match to {
        To::One(one) if one == me => (Peers::Nobody, true),
        To::One(one) => (Peers::One(one), false),
        To::All => (Peers::Others, true),
        To::Others => (Peers::Others, false),
    }
}

/// Holds messages back until the records that they wait for are durable, in the order in which the replica sent them.
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

    /// Returns the record that the first message waits for, if any waits.
    pub fn awaited(&self) -> Option<RecordId> {
        self.held.front().map(|(after, _)| *after)
    }

    /// Returns the first message if every record up to the one that it waits for is durable. Those behind it wait for
    /// it.
    pub fn release(&mut self, durable: Option<RecordId>) -> Option<Outgoing<M>> {
        if durable < self.awaited() {
            return None;
        }
        self.held.pop_front().map(|(_, message)| message)
    }

    /// Forgets all messages: the replica has crashed.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}
