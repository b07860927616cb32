//! The instances of a world: replicas, and twins of some of them.

use crate::twins::hostile::HostileClient;
use quorate_types::{Quorum, ReplicaId};
use std::fmt;

/// Maximum number of instances in a world: the width of an [`InstanceSet`].
pub const MAX_INSTANCES: usize = 64;

/// One instance of a replica. First instances come first, in the order of their identities; second instances follow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub usize);

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instance {}", self.0)
    }
}

/// Set of instances, one bit per instance.
pub type InstanceSet = u64;

/// Committee, and the instances that act for its members. A twin is a pair of instances with one identity and one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Participants {
    quorum: Quorum,
    identities: Vec<ReplicaId>,
    hostile: Option<HostileClient>,
}

impl Participants {
    /// Returns a committee whose first `twins` members have a second instance.
    ///
    /// # Panics
    /// If there are more twins than replicas, or more instances than [`MAX_INSTANCES`].
    pub fn new(quorum: Quorum, twins: usize) -> Participants {
        assert!(twins <= quorum.replicas(), "a twin is the second instance of a replica");
        assert!(quorum.replicas() + twins <= MAX_INSTANCES, "a world has room for {MAX_INSTANCES} instances");
        let first = (0..quorum.replicas() as u16).map(ReplicaId);
        let second = (0..twins as u16).map(ReplicaId);
        Participants { quorum, identities: first.chain(second).collect(), hostile: None }
    }

    pub fn with_hostile(self, hostile: Option<HostileClient>) -> Participants {
        Participants { hostile, ..self }
    }

    /// Returns the behaviour of the hostile client, if there is one.
    pub fn hostile(&self) -> Option<HostileClient> {
        self.hostile
    }

    pub fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// Returns the number of identities.
    pub fn replicas(&self) -> usize {
        self.quorum.replicas()
    }

    /// Returns the number of identities with a second instance.
    pub fn twins(&self) -> usize {
        self.identities.len() - self.replicas()
    }

    /// Returns the number of instances.
    pub fn len(&self) -> usize {
        self.identities.len()
    }

    /// Returns false: a committee has members.
    pub fn is_empty(&self) -> bool {
        false
    }

    pub fn instances(&self) -> impl Iterator<Item = InstanceId> + use<> {
        (0..self.identities.len()).map(InstanceId)
    }

    /// Returns the replica that an instance claims to be; twins claim the same.
    pub fn identity(&self, instance: InstanceId) -> ReplicaId {
        self.identities[instance.0]
    }

    /// Returns whether an identity has a second instance.
    pub fn is_twin(&self, identity: ReplicaId) -> bool {
        identity.index() < self.twins()
    }

    /// Returns whether a replica may lack its disk within the tolerated faults. Each twin uses up one of these.
    pub fn may_lose_disks(&self) -> bool {
        self.twins() < self.quorum.faults()
    }

    pub fn instances_of(&self, identity: ReplicaId) -> impl Iterator<Item = InstanceId> + use<> {
        let second = self.is_twin(identity).then(|| InstanceId(self.replicas() + identity.index()));
        [Some(InstanceId(identity.index())), second].into_iter().flatten()
    }

    /// Returns the members without a second instance.
    pub fn honest(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (self.twins() as u16..self.replicas() as u16).map(ReplicaId)
    }

    /// Returns the set of all instances.
    pub fn everybody(&self) -> InstanceSet {
        InstanceSet::MAX >> (MAX_INSTANCES - self.len())
    }

    /// Returns an instance's name: `R2`, or `R0'` for the second instance of `R0`.
    pub fn name(&self, instance: InstanceId) -> String {
        let mark = if instance.0 < self.replicas() { "" } else { "'" };
        format!("{:?}{mark}", self.identity(instance))
    }

    /// Returns the instance with this name.
    pub fn find(&self, name: &str) -> Option<InstanceId> {
        self.instances().find(|instance| self.name(*instance) == name)
    }

    /// Returns the names of the instances in a set, in order.
    pub fn names(&self, set: InstanceSet) -> String {
        let members = self.instances().filter(|instance| set >> instance.0 & 1 == 1);
        members.map(|instance| self.name(instance)).collect::<Vec<_>>().join(" ")
    }
}
