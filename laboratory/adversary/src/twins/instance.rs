//! One instance of a replica, and its host's state for it.

use crate::byzantine::Behaviour;
use crate::twins::words::mix;
use bytes::Bytes;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::seam::{Action, RecordId, Timer};
use quorate_consensus::{Protocol, Replica};
use quorate_hosting::StateKeeper;
use quorate_types::{Digest, Height, ReplicaId, Time, View};

/// Rewrites an instance's actions before they are performed.
pub type Rewrite<M> = Box<dyn FnMut(Time, &mut Vec<Action<M>>) + Send>;

/// An instance in a world.
pub(crate) struct Instance<P: Protocol> {
    pub replica: Replica<P>,
    pub identity: ReplicaId,
    pub started: bool,
    pub up: bool,
    /// Number of times that it has restarted.
    pub restarts: u64,
    /// Executed blocks, without genesis.
    pub chain: Vec<Digest>,
    /// Durable records, in order.
    pub journal: Vec<(RecordId, Record)>,
    pub rewrite: Option<Rewrite<P::Message>>,
    /// Layer between the replica and its host that injects a bug.
    #[cfg(feature = "museum")]
    pub rewriter: Option<crate::twins::bugs::Rewriter>,
    /// Byzantine behaviour that observes the instance's inputs.
    pub behaviour: Option<Box<dyn Behaviour<P::Message>>>,
    /// States kept for other replicas, and the state being received.
    pub states: StateKeeper<Bytes>,
    /// Number of remaining actions before it crashes.
    pub fuse: Option<usize>,
    alarms: [Option<Time>; Timer::ALL.len()],
}

impl<P: Protocol> Instance<P> {
    pub fn new(replica: Replica<P>, identity: ReplicaId) -> Instance<P> {
        Instance {
            replica,
            identity,
            started: false,
            up: true,
            restarts: 0,
            chain: Vec::new(),
            journal: Vec::new(),
            rewrite: None,
            #[cfg(feature = "museum")]
            rewriter: None,
            behaviour: None,
            states: StateKeeper::default(),
            fuse: None,
            alarms: [None; Timer::ALL.len()],
        }
    }

    /// Resets the instance for another scenario, reusing its memory.
    pub fn begin_again(&mut self, replica: Replica<P>) {
        self.replica = replica;
        (self.started, self.up, self.restarts) = (false, true, 0);
        (self.rewrite, self.fuse) = (None, None);
        self.behaviour = None;
        self.chain.clear();
        self.journal.clear();
        self.states = StateKeeper::default();
        self.alarms = [None; Timer::ALL.len()];
    }

    /// Counts down for an action. Returns whether the instance crashes before it.
    pub fn burns_down(&mut self) -> bool {
        match &mut self.fuse {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    /// Crashes the instance.
    pub fn stop(&mut self) {
        self.up = false;
        self.fuse = None;
        self.alarms = [None; Timer::ALL.len()];
    }

    /// Returns whether it is up and in a lower view.
    pub fn is_below(&self, view: View) -> bool {
        self.up && self.started && self.replica.view() < view
    }

    pub fn alarm(&self, timer: Timer) -> Option<Time> {
        self.alarms[timer as usize].filter(|_| self.up)
    }

    pub fn arm(&mut self, timer: Timer, due: Time) {
        self.alarms[timer as usize] = Some(due);
    }

    /// Cancels a timer. Returns whether it was set.
    pub fn take_alarm(&mut self, timer: Timer) -> bool {
        self.up && self.alarms[timer as usize].take().is_some()
    }

    /// Returns a digest of the state at a height, which depends only on the executed blocks.
    pub fn state(&self, height: Height) -> Digest {
        let executed = self.chain.get(..height.0 as usize).unwrap_or(&self.chain);
        let word = executed.iter().fold(height.0, |sum, block| mix(sum, block.prefix()));
        let mut digest = Digest::ZERO;
        digest.0[..8].copy_from_slice(&word.to_le_bytes());
        digest
    }
}
