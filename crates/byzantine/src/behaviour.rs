//! What a host knows of misbehaviour.

use quorate_consensus::{Action, Input};
use quorate_types::identity::ProofShape;
use quorate_types::{Quorum, ReplicaId, Time};
use std::time::Duration;

/// Rewrites what a replica asks for. A host that has one calls [`observe`](Behaviour::observe) before each step of the replica and
/// [`rewrite`](Behaviour::rewrite) after it, and [`ring`](Behaviour::ring) whenever time has passed. Whatever it records or shows of the
/// replica's own actions it does between the step and the rewriting.
pub trait Behaviour<M>: Send {
    /// Hears what the replica is about to hear.
    fn observe(&mut self, input: &Input<M>);

    /// Changes the actions of one step.
    fn rewrite(&mut self, now: Time, actions: &mut Vec<Action<M>>);

    /// When there is something to do besides.
    fn next(&self) -> Option<Time>;

    /// Appends what is due.
    fn ring(&mut self, now: Time, actions: &mut Vec<Action<M>>);

    /// Whether clients get answers to their bundles.
    fn answers_clients(&self, now: Time) -> bool;
}

/// What a behaviour knows of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// Who misbehaves.
    pub me: ReplicaId,
    /// n and f.
    pub quorum: Quorum,
    /// How long signatures and proofs are: a forged one has the length of a genuine one.
    pub shape: ProofShape,
    /// The base of view timeouts.
    pub view_timeout: Duration,
}

impl Context {
    /// The other replicas, in ring order from the next one on.
    pub fn others(&self) -> impl DoubleEndedIterator<Item = ReplicaId> + ExactSizeIterator + use<> {
        let (n, me) = (self.quorum.replicas() as u16, self.me.0);
        (1..n).map(move |step| ReplicaId((me + step) % n))
    }
}
