//! Random numbers for the hunts, and shared settings of their worlds.

use crate::byzantine::behaviour::Context;
use crate::twins::participants::{InstanceId, InstanceSet, Participants};
use crate::twins::world::World;
use quorate_consensus::Protocol;
use quorate_types::ReplicaId;
use quorate_types::identity::ProofShape;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Shape of a world's signatures, which are empty.
const SHAPE: ProofShape = ProofShape { signature_bytes: 0, is_aggregate: false };
/// Number of replicas in every scenario.
pub(super) const REPLICAS: usize = 4;

/// Source of random numbers.
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    /// Returns the dice of a scenario.
    pub(super) fn new(seed: u64) -> Dice {
        Dice(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Returns independent dice, seeded from this one.
    pub(super) fn others(&mut self) -> Dice {
        Dice::new(self.0.next_u64())
    }

    /// Returns a number below `limit`. For such small limits the bias is negligible.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }

    pub(super) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub(super) fn instance(&mut self) -> InstanceId {
        InstanceId(self.below(REPLICAS as u64) as usize)
    }

    pub(super) fn some_of(&mut self, all: InstanceSet) -> InstanceSet {
        self.0.next_u64() & all
    }
}

/// Heals a world with honest leaders.
pub(super) fn honest_lead<P: Protocol>(world: &mut World<P>) {
    let trusted = world.checker().trusted();
    let leaders = (0..REPLICAS as u16).filter(|at| trusted >> at & 1 == 1).map(ReplicaId);
    world.heal(leaders);
}

/// Returns a Byzantine replica's knowledge of the cluster.
pub(super) fn context_of(participants: &Participants, me: ReplicaId) -> Context {
    Context { me, quorum: participants.quorum(), shape: SHAPE, view_timeout: Duration::ZERO }
}
