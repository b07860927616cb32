//! The one file that names every protocol: where a protocol is known by its name only, work is done through it.

use crate::config::{Config, ProtocolKind};
use crate::replica::{Protocol, Replica};
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

/// Runs work that is generic in the protocol for the protocol of that name. A further protocol is one more arm.
#[macro_export]
macro_rules! dispatch {
    ($kind:expr, $work:expr) => {{
        use $crate::chained::{replica, rules};
        use $crate::config::ProtocolKind;
        match $kind {
            ProtocolKind::ChainedHotStuff => $work.run(replica::<rules::ChainedHotStuff>),
            ProtocolKind::SimpleHotStuff => $work.run(replica::<rules::SimpleHotStuff>),
            ProtocolKind::FastHotStuff => $work.run(replica::<rules::FastHotStuff>),
            ProtocolKind::Jolteon => $work.run(replica::<rules::Jolteon>),
            ProtocolKind::BasicHotStuff => $work.run($crate::basic::replica),
            ProtocolKind::Pbft => $work.run($crate::pbft::replica),
        }
    }};
}

/// Does the work for the protocol of that name.
pub fn for_protocol<W: ForProtocol>(kind: ProtocolKind, work: W) -> W::Output {
    dispatch!(kind, work)
}
