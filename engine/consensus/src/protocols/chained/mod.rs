//! The chained family: one block per view, each carrying the certificate of its predecessor.
//!
//! A protocol differs from the others only by its file in [`rules`]; the [`engine`] does the rest.

pub mod engine;
pub mod message;
pub mod rules;

use crate::config::Config;
use crate::replica::Replica;
use engine::ChainedEngine;
use quorate_types::{EpochId, Quorum, ReplicaId};
use rules::Rules;

/// Replica of a chained protocol.
pub type ChainedReplica<R> = Replica<ChainedEngine<R>>;

macro_rules! constructors {
    ([] chained { $($file:ident: $rules:ident,)+ } others { $($others:tt)* }) => {
        /// [`replica`] for each listed protocol: functions that are not generic, so that this crate compiles the
        /// engines and the hosts do not compile them again (ADR 072).
        pub mod make {
            use super::*;
            $(
                /// Creates a replica of the protocol.
                pub fn $file(
                    config: Config,
                    quorum: Quorum,
                    epoch: EpochId,
                    me: ReplicaId,
                    salt: u64,
                ) -> ChainedReplica<rules::$rules> {
                    replica(config, quorum, epoch, me, salt)
                }
            )+
        }
    };
}
crate::every_protocol!((constructors));

/// Creates a replica that follows the rules `R`.
pub fn replica<R: Rules>(
    config: Config,
    quorum: Quorum,
    epoch: EpochId,
    me: ReplicaId,
    salt: u64,
) -> ChainedReplica<R> {
    let engine = ChainedEngine::new(&config, &epoch);
    Replica::new(engine, config, quorum, epoch, me, salt)
}
