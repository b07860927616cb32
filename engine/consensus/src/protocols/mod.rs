//! Properties of the protocols in the [registry](crate::protocols::registry), and dispatch of generic code to them.

pub mod basic;
pub mod chained;
pub mod facts;
pub mod outbox;
pub mod parts;
pub mod pbft;
pub mod protocol;
pub mod registry;
pub mod turn;
pub mod views;

use crate::config::{Config, LeaderKind, VotesTo};
use crate::protocols::facts::{Facts, Shape};
use crate::protocols::protocol::Protocol;
use crate::protocols::registry::ProtocolKind;
use crate::replica::Replica;
use quorate_types::identity::ProofRequirements;
use quorate_types::{EpochId, Quorum, ReplicaId};

/// Constructor of a protocol's replica; see [`Replica::new`].
pub type MakeReplica<P> = fn(Config, Quorum, EpochId, ReplicaId, u64) -> Replica<P>;

/// Computation that is generic over the protocol.
pub trait ForProtocol {
    type Output;
    /// Runs the computation for one protocol.
    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Self::Output;
}

/// Runs `work` for the protocol that `kind` names.
pub fn for_protocol<W: ForProtocol>(kind: ProtocolKind, work: W) -> W::Output {
    crate::dispatch!(kind, work)
}

struct FactsOf;

impl ForProtocol for FactsOf {
    type Output = &'static Facts;
    fn run<P: Protocol + 'static>(self, _make: MakeReplica<P>) -> &'static Facts {
        &P::FACTS
    }
}

impl ProtocolKind {
    pub fn facts(self) -> &'static Facts {
        for_protocol(self, FactsOf)
    }

    /// Returns the name used on the command line and in files.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the leader elections that the protocol supports. In PBFT, replica `v - 1 mod n` is the primary for all
    /// of view `v`.
    pub fn leaders(self) -> &'static [LeaderKind] {
        if self.has_slots() { &[LeaderKind::Fixed] } else { LeaderKind::ALL }
    }

    /// Returns the requirements on the signature scheme. Every protocol shows signed statements to third parties: in
    /// proposals, view changes or checkpoints.
    pub fn requires(self) -> ProofRequirements {
        ProofRequirements { transferable: true }
    }

    /// Returns the requirements on what authenticates votes.
    pub fn requires_of_votes(self) -> ProofRequirements {
        ProofRequirements { transferable: self.facts().shows_votes }
    }

    /// Returns whether the protocol agrees on each slot of a window separately.
    pub fn has_slots(self) -> bool {
        self.facts().shape == Shape::Slots
    }

    /// Returns how many blocks in consecutive views must be certified to commit the first of them.
    pub fn chain_length(self) -> usize {
        self.facts().shape.chain_length()
    }

    /// Returns whether a chain of views certifies blocks, so that the next leader may collect the votes.
    pub fn is_chained(self) -> bool {
        matches!(self.facts().shape, Shape::Chain(_))
    }

    /// Returns how many consecutive views need live leaders before anything commits. In a chain whose votes go to the
    /// next leader, that is one more than the blocks to certify; with votes to all, it equals that number. One view is
    /// enough if all phases of a block belong to it.
    pub fn live_leaders_in_a_row(self, votes: VotesTo) -> usize {
        match votes {
            VotesTo::Collector if self.is_chained() && !self.facts().optimistic_proposals => self.chain_length() + 1,
            _ => self.chain_length(),
        }
    }
}
