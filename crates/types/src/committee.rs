//! Who takes part.

use crate::address::Address;
use crate::ids::{ClusterId, ReplicaId};
use crate::quorum::{Quorum, QuorumError};
use bytes::Bytes;

/// One replica of the committee.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// The scheme's public key; empty for the scheme `none`.
    pub public_key: Bytes,
    /// Where its peers reach it; to a client, where clients do.
    pub address: Address,
}

/// The members of a cluster, by replica id, and how many of them may be faulty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committee {
    /// The cluster's name.
    pub cluster: ClusterId,
    /// n and f.
    pub quorum: Quorum,
    /// The members; the position is the replica id.
    pub members: Vec<Member>,
}

impl Committee {
    /// A committee that tolerates as many faults as its size allows.
    pub fn new(cluster: ClusterId, members: Vec<Member>) -> Result<Committee, QuorumError> {
        Ok(Committee { cluster, quorum: Quorum::of(members.len())?, members })
    }

    /// n.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Never true: a committee has members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// A member, if there is one of that id.
    pub fn member(&self, replica: ReplicaId) -> Option<&Member> {
        self.members.get(replica.index())
    }

    /// Every replica id.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.members.len() as u16).map(ReplicaId)
    }
}
