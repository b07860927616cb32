//! Who plays: replicas, and twins of some of them.

use crate::hostile::HostileClient;
use quorate_types::{Quorum, ReplicaId};
use std::fmt;

/// Most actors on a stage; the width of a set of them.
pub const MAX_ACTORS: usize = 64;

/// One instance of a replica. The first instances come first, in the order of their identities; then the second ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(pub usize);

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "actor {}", self.0)
    }
}

/// A set of actors, as bits by their number.
pub type ActorSet = u64;

/// The committee and the instances that act for its members. A twin is two instances of one identity with one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cast {
    quorum: Quorum,
    identities: Vec<ReplicaId>,
    hostile: Option<HostileClient>,
}

impl Cast {
    /// A committee whose first `twins` members have a second instance.
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

    /// The same, and a hostile client.
    pub fn with_hostile(self, hostile: Option<HostileClient>) -> Cast {
        Cast { hostile, ..self }
    }

    /// What the hostile client does, if there is one.
    pub fn hostile(&self) -> Option<HostileClient> {
        self.hostile
    }

    /// n and f.
    pub fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// How many identities there are.
    pub fn replicas(&self) -> usize {
        self.quorum.replicas()
    }

    /// How many identities have a second instance.
    pub fn twins(&self) -> usize {
        self.identities.len() - self.replicas()
    }

    /// How many actors there are.
    pub fn len(&self) -> usize {
        self.identities.len()
    }

    /// Never true: a committee has members.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Every actor.
    pub fn actors(&self) -> impl Iterator<Item = ActorId> + use<> {
        (0..self.identities.len()).map(ActorId)
    }

    /// For whom an actor acts.
    pub fn identity(&self, actor: ActorId) -> ReplicaId {
        self.identities[actor.0]
    }

    /// Whether an identity has a second instance.
    pub fn is_twin(&self, identity: ReplicaId) -> bool {
        identity.index() < self.twins()
    }

    /// The instances of an identity.
    pub fn instances(&self, identity: ReplicaId) -> impl Iterator<Item = ActorId> + use<> {
        let second = self.is_twin(identity).then(|| ActorId(self.replicas() + identity.index()));
        [Some(ActorId(identity.index())), second].into_iter().flatten()
    }

    /// The members without a second instance.
    pub fn honest(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (self.twins() as u16..self.replicas() as u16).map(ReplicaId)
    }

    /// The set of all actors.
    pub fn everybody(&self) -> ActorSet {
        ActorSet::MAX >> (MAX_ACTORS - self.len())
    }

    /// An actor's name: `R2`, and `R0'` for the second instance of `R0`.
    pub fn name(&self, actor: ActorId) -> String {
        let mark = if actor.0 < self.replicas() { "" } else { "'" };
        format!("{:?}{mark}", self.identity(actor))
    }

    /// The actor of that name.
    pub fn find(&self, name: &str) -> Option<ActorId> {
        self.actors().find(|actor| self.name(*actor) == name)
    }

    /// The names of a set, in the order of the actors.
    pub fn names(&self, set: ActorSet) -> String {
        let members = self.actors().filter(|actor| set >> actor.0 & 1 == 1);
        members.map(|actor| self.name(actor)).collect::<Vec<_>>().join(" ")
    }
}
