//! Copies of messages, for links that lose some of them ([ADR
//! 075](../../../../docs/adr/075-the-three-phases-and-copies.md)).
//!
//! A [`Copier`] stands between any replica and its host, as a [Byzantine behaviour](crate::byzantine) does. The replica
//! is unaware of it.

pub mod adaptive;
mod rules;

pub use adaptive::{AdaptiveCopies, Copies};
pub use rules::{CopyRules, MAX_REPETITIONS, Remedy};

use crate::byzantine::behaviour::Behaviour;
use crate::byzantine::malleable::Malleable;
use quorate_consensus::seam::Purpose;
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{Quorum, ReplicaId, Time};

impl CopyRules {
    /// Returns the wrapper of replica `me` that makes the copies, before its behaviour, if it has one, rewrites them
    /// like any other messages. Without copies, that is the behaviour alone.
    pub fn wrap<M: Malleable>(
        &self,
        me: ReplicaId,
        quorum: Quorum,
        behaviour: Option<Box<dyn Behaviour<M>>>,
    ) -> Option<Box<dyn Behaviour<M>>> {
        if !self.any() {
            return behaviour;
        }
        let copies = Copies { pre_prepare: self.pre_prepare_repeat, all: self.repeat, replies: self.repeat };
        let adaptive = (self.remedy == Remedy::Adaptive).then(|| AdaptiveCopies::new(quorum, copies));
        Some(Box::new(Copier { me, quorum, copies, adaptive, behaviour }))
    }
}

/// Copies the messages of one replica.
struct Copier<M> {
    me: ReplicaId,
    quorum: Quorum,
    copies: Copies,
    /// Adapts the copies to the loss of links.
    adaptive: Option<AdaptiveCopies>,
    behaviour: Option<Box<dyn Behaviour<M>>>,
}

impl<M: Malleable> Copier<M> {
    /// Adapts the number of copies to the votes that arrive.
    fn judge_loss(&mut self, from: ReplicaId, message: &Envelope<M>) {
        let is_peer = from != self.me && from.index() < self.quorum.replicas();
        if let (Some(adaptive), Envelope::Protocol(message)) = (self.adaptive.as_mut().filter(|_| is_peer), message)
            && let Some(vote) = message.counted_vote().filter(|vote| vote.voter == from)
        {
            adaptive.on_vote(from, &vote.subject);
            self.copies = adaptive.copies();
        }
    }
}

impl<M: Malleable> Behaviour<M> for Copier<M> {
    fn observe(&mut self, input: &Input<M>) {
        if let Input::Receive { from, message } = input {
            self.judge_loss(*from, message);
        }
        if let Some(behaviour) = &mut self.behaviour {
            behaviour.observe(input);
        }
    }

    fn rewrite(&mut self, now: Time, actions: &mut Vec<Action<M>>) {
        if self.copies.any() {
            copy_messages(self.copies, actions);
        }
        if let Some(behaviour) = &mut self.behaviour {
            behaviour.rewrite(now, actions);
        }
    }

    fn next(&self) -> Option<Time> {
        self.behaviour.as_ref().and_then(|behaviour| behaviour.next())
    }

    fn ring(&mut self, now: Time, actions: &mut Vec<Action<M>>) {
        if let Some(behaviour) = &mut self.behaviour {
            behaviour.ring(now, actions);
        }
    }

    fn answers_clients(&self, now: Time) -> bool {
        self.behaviour.as_ref().is_none_or(|behaviour| behaviour.answers_clients(now))
    }

    fn refuses_clients(&self, now: Time) -> bool {
        self.behaviour.as_ref().is_some_and(|behaviour| behaviour.refuses_clients(now))
    }

    fn reply_copies(&self) -> usize {
        self.copies.replies
    }
}

/// Adds copies of each message of the protocol, behind it. The loopback loses none.
fn copy_messages<M: Malleable>(copies: Copies, actions: &mut Vec<Action<M>>) {
    for action in std::mem::take(actions) {
        let again = match &action {
            Action::Send { to, message: Envelope::Protocol(message), after, sign } => {
                let to = if *to == To::All { To::Others } else { *to };
                let (times, message) = (copies.of(message.purpose()), Envelope::Protocol(message.clone()));
                Some((times, Action::Send { to, message, after: *after, sign: *sign }))
            }
            _ => None,
        };
        actions.push(action);
        actions.extend(again.into_iter().flat_map(|(times, again)| std::iter::repeat_n(again, times)));
    }
}

impl Copies {
    /// Returns the number of copies of a message of the protocol.
    fn of(self, purpose: Purpose) -> usize {
        if purpose == Purpose::Proposal { self.pre_prepare.max(self.all) } else { self.all }
    }
}
