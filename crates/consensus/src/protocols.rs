//! What the protocols of the [registry](crate::registry) are, and work that is generic in them.

use crate::config::{Config, LeaderKind, VotesTo};
use crate::facts::{Facts, Shape};
use crate::registry::ProtocolKind;
use crate::replica::{Protocol, Replica};
use quorate_types::identity::ProofRequirements;
use quorate_types::{ClusterId, Quorum, ReplicaId};

/// Makes a replica of a protocol; see [`Replica::new`].
pub type MakeReplica<P> = fn(Config, Quorum, ClusterId, ReplicaId, u64) -> Replica<P>;

/// Work that is the same for replicas of every protocol.
pub trait ForProtocol {
    /// What comes of it.
    type Output;
    /// Does it for one protocol.
    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Self::Output;
}

/// Does the work for the protocol of that name.
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
    /// What the protocol is.
    pub fn facts(self) -> &'static Facts {
        for_protocol(self, FactsOf)
    }

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Who may lead its views. PBFT's primary of view v is replica `v - 1 mod n`, who leads for as long as its view lasts.
    pub fn leaders(self) -> &'static [LeaderKind] {
        if self.has_slots() { &[LeaderKind::Fixed] } else { LeaderKind::ALL }
    }

    /// What it asks of signatures: each of them shows certificates to others, in proposals or in view changes.
    pub fn requires(self) -> ProofRequirements {
        ProofRequirements { transferable: true }
    }

    /// Whether it agrees on each slot by itself, in a window of slots.
    pub fn has_slots(self) -> bool {
        self.facts().shape == Shape::Slots
    }

    /// How many blocks in consecutive views must be certified before the first of them is committed.
    pub fn chain_length(self) -> usize {
        self.facts().shape.chain_length()
    }

    /// Whether blocks are certified by a chain of views, so that somebody of another view may collect the votes.
    pub fn is_chained(self) -> bool {
        matches!(self.facts().shape, Shape::Chain(_))
    }

    /// How many consecutive views must have live leaders before anything is committed. In a chain, where the next leader collects
    /// the votes, that is one more than there are blocks to certify; where everybody does, it is as many; where all phases of a block
    /// belong to one view, one suffices.
    pub fn live_leaders_in_a_row(self, votes: VotesTo) -> usize {
        match votes {
            VotesTo::Collector if self.is_chained() => self.chain_length() + 1,
            _ => self.chain_length(),
        }
    }
}
