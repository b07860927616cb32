//! The chained family: one block a view, each carrying the certificate of the one before.
//!
//! What the protocols differ in is a file in [`rules`]; everything else is the [`engine`].

pub mod engine;
pub mod message;
pub mod rules;

use crate::config::Config;
use crate::replica::Replica;
use engine::ChainedEngine;
use quorate_types::{ClusterId, Quorum, ReplicaId};
use rules::Rules;

/// A replica of a chained protocol.
pub type ChainedReplica<R> = Replica<ChainedEngine<R>>;

/// A replica that follows the rules `R`.
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
