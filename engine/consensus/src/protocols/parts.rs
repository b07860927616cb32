//! State shared by all protocols.

use crate::config::{Config, Dissemination};
use crate::data::alone::Alone;
use crate::data::answers::Answers;
use crate::recovery::checkpoints::Checkpoints;
use crate::store::Store;
use crate::voting::clock::Clock;
use crate::voting::fairness::Fairness;
use crate::voting::leader::LeaderElection;
use crate::voting::pacemaker::Pacemaker;
use crate::voting::safety::Safety;
use crate::voting::spreading::Spreading;
use crate::voting::tally::Tally;
use quorate_types::{Block, Bundle, Certificate, EpochId, Quorum, ReplicaId};

/// Components that all protocols share.
pub struct Parts {
    pub config: Config,
    /// Committee size n and fault bound f.
    pub quorum: Quorum,
    pub epoch: EpochId,
    pub me: ReplicaId,
    /// Certificate of genesis, which needs no proof.
    pub genesis: Certificate,
    /// Block tree, pool and pending fetches.
    pub store: Store,
    /// All commitments of this replica.
    pub safety: Safety,
    pub pacemaker: Pacemaker,
    /// Judges the times of blocks.
    pub clock: Clock,
    /// Detects a leader that passes over pending commands.
    pub fairness: Fairness,
    /// Selects the bundles sent along with proposals.
    pub alone: Alone,
    pub leaders: LeaderElection,
    /// Votes, except those on checkpoints.
    pub tally: Tally,
    /// Votes on checkpoints and the certificates they form.
    pub checkpoints: Checkpoints,
    /// Bundles that this replica has spread and that are not certified yet.
    pub spreading: Spreading,
    /// Recent answers to peers, for rate limits.
    pub answers: Answers,
}

impl Parts {
    /// Returns whether a block names no more bundles than the configuration allows, and names storage certificates only
    /// if these are in use.
    pub fn may_propose(&self, block: &Block) -> bool {
        let certified = self.config.dissemination.is_certified();
        block.payload.len() <= self.config.batch.max_commands() && (certified || block.covers().is_empty())
    }

    /// Returns the bundles sent along with the proposal of a block.
    pub fn carried_bundles(&self, block: &Block) -> Vec<Bundle> {
        let pool = &self.store.pool;
        match self.config.dissemination {
            Dissemination::Client | Dissemination::Replicas | Dissemination::ReplicasCertified => {
                self.alone.carried(&block.payload, pool)
            }
            Dissemination::Leader => block.payload.iter().filter_map(|bundle| pool.get(bundle).cloned()).collect(),
        }
    }
}
