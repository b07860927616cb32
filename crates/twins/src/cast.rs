//! The actors of a stage: replicas, and twins of some of them.

use crate::hostile::HostileClient;
use quorate_types::{Quorum, ReplicaId};
use std::fmt;

/// Maximum number of actors on a stage: the width of an [`ActorSet`].
pub const MAX_ACTORS: usize = 64;

/// One instance of a replica. First instances come first, in the order of their identities; second instances follow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(pub usize);

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "actor {}", self.0)
    }
}

/// Set of actors, a bit for each.
pub type ActorSet = u64;

/// Committee, and the instances that act for its members. A twin is two instances of one identity with one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cast {
    quorum: Quorum,
    identities: Vec<ReplicaId>,
    hostile: Option<HostileClient>,
}

impl Cast {
    /// Returns a committee whose first `twins` members have a second instance.
    ///
    /// # Panics
    /// If there are more twins than replicas, or more actors than [`MAX_ACTORS`].
    pub fn new(quorum: Quorum, twins: usize) -> Cast {
        assert!(twins <= quorum.replicas(), "a twin is the second instance of a replica");
        assert!(quorum.replicas() + twins <= MAX_ACTORS, "a stage has room for {MAX_ACTORS} actors");
        let first = (0..quorum.replicas() as u16).map(ReplicaId);
        let second = (0..twins as u16).map(ReplicaId);
        Cast { quorum, identities: first.chain(second).collect(), hostile: None }
    }

    /// Sets the hostile client.
    pub fn with_hostile(self, hostile: Option<HostileClient>) -> Cast {
        Cast { hostile, ..self }
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

    /// Returns the number of actors.
    pub fn len(&self) -> usize {
        self.identities.len()
    }

    /// Returns false: a committee has members.
    pub fn is_empty(&self) -> bool {
        false
    }

    pub fn actors(&self) -> impl Iterator<Item = ActorId> + use<> {
        (0..self.identities.len()).map(ActorId)
    }

    /// Returns the identity that an actor acts for.
    pub fn identity(&self, actor: ActorId) -> ReplicaId {
        self.identities[actor.0]
    }

    /// Returns whether an identity has a second instance.
    pub fn is_twin(&self, identity: ReplicaId) -> bool {
        identity.index() < self.twins()
    }

    pub fn instances(&self, identity: ReplicaId) -> impl Iterator<Item = ActorId> + use<> {
        let second = self.is_twin(identity).then(|| ActorId(self.replicas() + identity.index()));
        [Some(ActorId(identity.index())), second].into_iter().flatten()
    }

    /// Returns the members without a second instance.
    pub fn honest(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (self.twins() as u16..self.replicas() as u16).map(ReplicaId)
    }

    /// Returns the set of all actors.
    pub fn everybody(&self) -> ActorSet {
        ActorSet::MAX >> (MAX_ACTORS - self.len())
    }

    /// Returns an actor's name: `R2`, or `R0'` for the second instance of `R0`.
    pub fn name(&self, actor: ActorId) -> String {
        let mark = if actor.0 < self.replicas() { "" } else { "'" };
        format!("{:?}{mark}", self.identity(actor))
    }

    /// Returns the actor with this name.
    pub fn find(&self, name: &str) -> Option<ActorId> {
        self.actors().find(|actor| self.name(*actor) == name)
    }

    /// Returns the names of the actors in a set, in order.
    pub fn names(&self, set: ActorSet) -> String {
        let members = self.actors().filter(|actor| set >> actor.0 & 1 == 1);
        members.map(|actor| self.name(actor)).collect::<Vec<_>>().join(" ")
    }
}
