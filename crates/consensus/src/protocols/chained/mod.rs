//! The chained family: one block per view, each carrying the certificate of its predecessor.
//!
//! A protocol differs from the others only by its file in [`rules`]; the [`engine`] does the rest.

pub mod engine;
pub mod message;
pub mod rules;

use crate::config::Config;
use crate::replica::Replica;
use engine::ChainedEngine;
use quorate_types::{ClusterId, Quorum, ReplicaId};
use rules::Rules;

/// Replica of a chained protocol.
pub type ChainedReplica<R> = Replica<ChainedEngine<R>>;

/// Creates a replica that follows the rules `R`.
pub fn replica<R: Rules>(
    config: Config,
    quorum: Quorum,
    cluster: ClusterId,
    me: ReplicaId,
    salt: u64,
) -> ChainedReplica<R> {
    let engine = ChainedEngine::new(&config, &cluster);
    Replica::new(engine, config, quorum, cluster, me, salt)
}
