//! The members of a cluster.

use crate::genesis::Genesis;
use crate::ids::{ClusterId, EpochId, ReplicaId};
use crate::member::Member;
use crate::quorum::{Quorum, QuorumError};

/// The members of a cluster, by replica id, and how many of them may be faulty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committee {
    /// For client signatures.
    pub cluster: ClusterId,
    /// For replicas' statements.
    pub epoch: EpochId,
    pub quorum: Quorum,
    pub members: Vec<Member>,
}

impl Committee {
    /// Returns a committee that runs no protocol and tolerates as many faults as its size allows, for tests, benchmarks
    /// and examples. A cluster's committee comes from its [`Genesis`].
    pub fn new(name: &str, members: Vec<Member>) -> Result<Committee, QuorumError> {
        let quorum = Quorum::of(members.len())?;
        let genesis = Genesis { quorum, members: &members, ..Genesis::of_name(name) };
        let (cluster, epoch) = (genesis.cluster(), genesis.epoch());
        Ok(Committee { cluster, epoch, quorum, members })
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn member(&self, replica: ReplicaId) -> Option<&Member> {
        self.members.get(replica.index())
    }

    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.members.len() as u16).map(ReplicaId)
    }
}

impl Genesis<'_> {
    /// Returns the committee with copies of the members.
    pub fn committee(&self) -> Committee {
        let Genesis { quorum, members, .. } = *self;
        Committee { cluster: self.cluster(), epoch: self.epoch(), quorum, members: members.to_vec() }
    }
}
