//! The end of a replica's process, and its restart.

use super::Node;
use super::gateway::{Connections, open_desk};
use crate::clock::NEVER;
use crate::faults::Leaves;
use crate::levels::SeenLevels;
use quorate_adversary::byzantine::Behaviour;
use quorate_applications::Executor;
use quorate_consensus::{Input, Protocol, Replica, Timer};
use quorate_storage::Identity;
use quorate_types::Height;

/// Parts from which a restarting replica is rebuilt.
pub struct Reborn<P: Protocol> {
    pub replica: Replica<P>,
    pub executor: Executor,
    pub seen_levels: Option<SeenLevels>,
    /// New behaviour: a misbehaving process loses its state when it ends.
    pub behaviour: Option<Box<dyn Behaviour<P::Message>>>,
    pub salt: u64,
}

impl<P: Protocol> Node<P> {
    /// Crashes the replica. Without `returns` it never restarts.
    pub fn crash(&mut self, returns: Option<Leaves>) {
        if returns == Some(Leaves::Stopped)
            && let Some((id, record)) = self.parts.replica.stop()
        {
            self.journal.append(id, record, false);
        }
        (self.alive, self.returns) = (false, returns);
        self.peers.clear();
        self.close_desk();
        self.local.clear();
        self.gate.clear();
    }

    /// Drops all connections and replies.
    fn close_desk(&mut self) {
        let desk = self.desk.take().expect("nobody is at the desk");
        self.desk = Some(open_desk(&self.parts, desk.into_verifier()));
        self.connections = Connections::new(self.parts.origins.len());
    }

    /// Restarts as a new replica, from the journal that survived the crash.
    pub fn restart(&mut self, reborn: Reborn<P>, leaves: Leaves) {
        let Reborn { replica, executor, seen_levels, behaviour, salt } = reborn;
        let identity = Identity { epoch: self.parts.epoch, replica: self.parts.me };
        let (records, is_gone) = self.journal.recover(leaves, identity, salt);
        let forgot = is_gone.then_some(Input::Forgot);
        self.recalled = records.into_iter().map(|(id, record)| Input::Recall { id, record }).chain(forgot).collect();
        (self.parts.replica, self.parts.executor, self.parts.salt) = (replica, executor, salt);
        (self.parts.behaviour, self.parts.seen_levels) = (behaviour, seen_levels);
        self.lose_states(leaves);
        (self.adopted, self.adopting) = (Height(0), None);
        self.close_desk();
        (self.alive, self.started, self.struck) = (true, false, false);
        self.struck_at = self.struck_at.filter(|point| self.points < *point);
        self.born = None;
        (self.alarms, self.alarm_known) = ([NEVER; Timer::ALL.len()], NEVER);
        self.verifiers.clear();
        if let Some(network) = &mut self.network {
            network.clear();
        }
    }
}
