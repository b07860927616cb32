//! Creates replicas, and dispatches generic code to a protocol by its kind.

use crate::config::Config;
use crate::facts::{Facts, ProtocolKind};
use crate::protocols::chained::engine::ChainedEngine;
use crate::protocols::chained::rules::{self, Rules};
use crate::protocols::protocol::Protocol;
use crate::replica::Replica;
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

/// Creates a replica that follows the rules `R`.
pub fn chained<R: Rules>(
    config: Config,
    quorum: Quorum,
    epoch: EpochId,
    me: ReplicaId,
    salt: u64,
) -> Replica<ChainedEngine<R>> {
    Replica::new(ChainedEngine::new(&config, &epoch), config, quorum, epoch, me, salt)
}

// These functions are not generic, so that this crate compiles the engines and the hosts do not compile them again (ADR
// 072).
macro_rules! constructors {
    ([] chained { $($file:ident: $rules:ident,)+ } others { $($name:ident: $kind:ident = $engine:ty,)+ }) => {
        $(
            /// Creates a replica of the protocol in its initial state.
            pub fn $file(
                config: Config,
                quorum: Quorum,
                epoch: EpochId,
                me: ReplicaId,
                salt: u64,
            ) -> Replica<ChainedEngine<rules::$rules>> {
                chained(config, quorum, epoch, me, salt)
            }
        )+
        $(
            /// Creates a replica of the protocol in its initial state.
            pub fn $name(
                config: Config,
                quorum: Quorum,
                epoch: EpochId,
                me: ReplicaId,
                salt: u64,
            ) -> Replica<$engine> {
                Replica::new(<$engine>::new(&config, &epoch), config, quorum, epoch, me, salt)
            }
        )+
    };
}
crate::every_kind! { (constructors) }

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
}
