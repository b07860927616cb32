//! The one file that names every protocol: where a protocol is known by its name only, work is done through it.

use crate::chained::rules::{ChainedHotStuff, FastHotStuff, Jolteon, SimpleHotStuff};
use crate::config::{Config, ProtocolKind};
use crate::replica::{Protocol, Replica};
use crate::{basic, chained, pbft};
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

/// Does the work for the protocol of that name. A further protocol is one more arm.
pub fn for_protocol<W: ForProtocol>(kind: ProtocolKind, work: W) -> W::Output {
    match kind {
        ProtocolKind::ChainedHotStuff => work.run(chained::replica::<ChainedHotStuff>),
        ProtocolKind::SimpleHotStuff => work.run(chained::replica::<SimpleHotStuff>),
        ProtocolKind::FastHotStuff => work.run(chained::replica::<FastHotStuff>),
        ProtocolKind::Jolteon => work.run(chained::replica::<Jolteon>),
        ProtocolKind::BasicHotStuff => work.run(basic::replica),
        ProtocolKind::Pbft => work.run(pbft::replica),
    }
}
