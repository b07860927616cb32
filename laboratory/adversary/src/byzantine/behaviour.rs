//! The interface between a behaviour and its host.

use quorate_consensus::{Action, Input};
use quorate_types::identity::ProofShape;
use quorate_types::{Quorum, ReplicaId, Time};
use std::time::Duration;

/// Rewrites the actions of a replica.
///
/// The host calls [`observe`](Behaviour::observe) before each step of the replica, [`rewrite`](Behaviour::rewrite)
/// after it, and [`ring`](Behaviour::ring) at the time of [`next`](Behaviour::next). If the host records or displays
/// the replica's own actions, it does so between the step and the rewriting.
pub trait Behaviour<M>: Send {
    /// Observes an input before the replica does.
    fn observe(&mut self, input: &Input<M>);

    /// Rewrites the actions of one step.
    fn rewrite(&mut self, now: Time, actions: &mut Vec<Action<M>>);

    /// Returns the time of the next call to [`ring`](Behaviour::ring).
    fn next(&self) -> Option<Time>;

    /// Appends the actions that are due.
    fn ring(&mut self, now: Time, actions: &mut Vec<Action<M>>);

    /// Returns whether clients get answers to their bundles.
    fn answers_clients(&self, now: Time) -> bool;

    /// Returns whether clients' bundles are refused as if the replica were overloaded.
    fn refuses_clients(&self, now: Time) -> bool;

    /// Returns how many copies of each reply to an executed bundle clients get now, besides the first.
    fn reply_copies(&self) -> usize {
        0
    }
}

/// Knowledge of a behaviour about the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    pub me: ReplicaId,
    pub quorum: Quorum,
    /// Lengths of signatures and proofs. A forged one has the length of a genuine one.
    pub shape: ProofShape,
    /// Base of the view timeouts.
    pub view_timeout: Duration,
}

impl Context {
    /// Returns the other replicas in ring order, starting after this one.
    pub fn others(&self) -> impl DoubleEndedIterator<Item = ReplicaId> + ExactSizeIterator + use<> {
        let (n, me) = (self.quorum.replicas() as u16, self.me.0);
        (1..n).map(move |step| ReplicaId((me + step) % n))
    }
}
