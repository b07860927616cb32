//! What every protocol works with.

use crate::alone::Alone;
use crate::answers::Answers;
use crate::checkpoints::Checkpoints;
use crate::config::Config;
use crate::fairness::Fairness;
use crate::leader::LeaderElection;
use crate::pacemaker::Pacemaker;
use crate::safety::Safety;
use crate::store::Store;
use crate::tally::Tally;
use quorate_types::{Certificate, ClusterId, Quorum, ReplicaId};

/// The parts that every protocol shares.
pub struct Parts {
    /// The settings.
    pub config: Config,
    /// n and f.
    pub quorum: Quorum,
    /// The cluster's name.
    pub cluster: ClusterId,
    /// This replica.
    pub me: ReplicaId,
    /// The certificate of genesis, which needs no proof.
    pub genesis: Certificate,
    /// Blocks and commands.
    pub store: Store,
    /// What this replica has bound itself to.
    pub safety: Safety,
    /// The clock of views.
    pub pacemaker: Pacemaker,
    /// Whether the leader passes commands over.
    pub fairness: Fairness,
    /// Which bundles go along with proposals.
    pub alone: Alone,
    /// Who leads.
    pub leaders: LeaderElection,
    /// Votes, but those on checkpoints.
    pub tally: Tally,
    /// What quorums vouch for.
    pub checkpoints: Checkpoints,
    /// What peers were answered lately.
    pub answers: Answers,
}
