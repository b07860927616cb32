//! One instance of a replica, and what its host keeps for it.

use crate::words::mix;
use bytes::Bytes;
use quorate_byzantine::Behaviour;
use quorate_consensus::Replica;
use quorate_consensus::journal::Record;
use quorate_consensus::replica::Protocol;
use quorate_consensus::seam::{Action, RecordId, Timer};
use quorate_hosting::StateKeeper;
use quorate_types::{Digest, Height, ReplicaId, Time, View};

/// Changes what an actor does before it is done.
pub type Rewrite<M> = Box<dyn FnMut(Time, &mut Vec<Action<M>>) + Send>;

/// An actor on a stage.
pub(crate) struct Actor<P: Protocol> {
    pub replica: Replica<P>,
    pub identity: ReplicaId,
    pub started: bool,
    pub up: bool,
    /// The blocks that were executed, genesis left out.
    pub chain: Vec<Digest>,
    /// What was made durable, in order.
    pub journal: Vec<(RecordId, Record)>,
    pub rewrite: Option<Rewrite<P::Message>>,
    /// The bug that it has in the eyes of others.
    #[cfg(feature = "museum")]
    pub rewriter: Option<crate::museum::rewriting::Rewriter>,
    /// How it misbehaves, if it hears what it lies about.
    pub behaviour: Option<Box<dyn Behaviour<P::Message>>>,
    /// The states that it keeps for others, and the one that it receives.
    pub states: StateKeeper<Bytes>,
    /// After how many actions it crashes.
    pub fuse: Option<usize>,
    alarms: [Option<Time>; Timer::ALL.len()],
}

impl<P: Protocol> Actor<P> {
    pub fn new(replica: Replica<P>, identity: ReplicaId) -> Actor<P> {
        Actor {
            replica,
            identity,
            started: false,
            up: true,
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

    /// Another scenario begins; what the last one took room for is used again.
    pub fn begin_again(&mut self, replica: Replica<P>) {
        self.replica = replica;
        (self.started, self.up, self.rewrite, self.fuse) = (false, true, None, None);
        self.behaviour = None;
        self.chain.clear();
        self.journal.clear();
        self.states = StateKeeper::default();
        self.alarms = [None; Timer::ALL.len()];
    }

    /// Another action of it is to be done: whether it crashes before.
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

    /// It crashes.
    pub fn stop(&mut self) {
        self.up = false;
        self.fuse = None;
        self.alarms = [None; Timer::ALL.len()];
    }

    /// Whether it is up and in a lower view.
    pub fn is_below(&self, view: View) -> bool {
        self.up && self.started && self.replica.view() < view
    }

    pub fn alarm(&self, timer: Timer) -> Option<Time> {
        self.alarms[timer as usize].filter(|_| self.up)
    }

    pub fn arm(&mut self, timer: Timer, due: Time) {
        self.alarms[timer as usize] = Some(due);
    }

    /// Cancels an alarm; whether it was set.
    pub fn take_alarm(&mut self, timer: Timer) -> bool {
        self.up && self.alarms[timer as usize].take().is_some()
    }

    /// A digest of the state up to a height, which those have the same of who executed the same.
    pub fn state(&self, height: Height) -> Digest {
        let executed = self.chain.get(..height.0 as usize).unwrap_or(&self.chain);
        let word = executed.iter().fold(height.0, |sum, block| mix(sum, block.prefix()));
        let mut digest = Digest::ZERO;
        digest.0[..8].copy_from_slice(&word.to_le_bytes());
        digest
    }
}
