//! What the hunts draw by, and what all of them know of a stage.

use crate::cast::{ActorId, ActorSet, Cast};
use crate::stage::Stage;
use quorate_byzantine::behaviour::Context;
use quorate_consensus::replica::Protocol;
use quorate_types::ReplicaId;
use quorate_types::identity::ProofShape;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Genuine signatures of a stage are empty.
const SHAPE: ProofShape = ProofShape { signature_bytes: 0, is_aggregate: false };
/// Replicas of every scenario.
pub(super) const REPLICAS: usize = 4;

/// What decides.
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    /// Those of a scenario's number.
    pub(super) fn new(seed: u64) -> Dice {
        Dice(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Others, thrown by these.
    pub(super) fn others(&mut self) -> Dice {
        Dice::new(self.0.next_u64())
    }

    /// A number below `limit`; the bias of so small ones does not matter.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }

    pub(super) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub(super) fn actor(&mut self) -> ActorId {
        ActorId(self.below(REPLICAS as u64) as usize)
    }

    pub(super) fn some_of(&mut self, all: ActorSet) -> ActorSet {
        self.0.next_u64() & all
    }
}

/// Heals a stage with honest leaders.
pub(super) fn honest_lead<P: Protocol>(stage: &mut Stage<P>) {
    let trusted = stage.judge().trusted();
    let leaders = (0..REPLICAS as u16).filter(|at| trusted >> at & 1 == 1).map(ReplicaId);
    stage.heal(leaders);
}

/// What a liar on a stage knows.
pub(super) fn context_of(cast: &Cast, me: ReplicaId) -> Context {
    Context { me, quorum: cast.quorum(), shape: SHAPE, view_timeout: Duration::ZERO }
}
