//! A step of a faulty replica from its behaviour's point of view: the messages about to be sent, and the material for
//! others.

use crate::byzantine::behaviour::Context;
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::memory::Memory;
use crate::byzantine::rivals::Rivals;
use quorate_consensus::seam::{Purpose, RecordId};
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{ReplicaId, Time};
use std::collections::VecDeque;

/// Behaviour of a faulty replica, message by message. The defaults are honest.
pub trait Tactic<M: Malleable>: Send {
    /// Observes an input before the replica does, even while the fault is inactive.
    fn hear(&mut self, _input: &Input<M>, _context: &Context) {}

    /// Sends any messages instead of a message to others.
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        step.pass(sent);
    }

    /// Sends a message of the replica to itself, which no other replica sees.
    fn send_to_itself(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        step.pass(sent);
    }

    /// Adds messages to the actions of a step.
    fn finish(&mut self, _step: &mut Step<'_, M>) {}

    /// Returns whether clients get no answers to their bundles.
    fn ignores_clients(&self) -> bool {
        false
    }

    /// Returns whether clients' bundles are refused as if the replica were overloaded.
    fn refuses_clients(&self) -> bool {
        false
    }
}

/// A message about to be sent.
#[derive(Clone)]
pub struct Sent<M> {
    pub to: To,
    pub message: Envelope<M>,
    pub after: Option<RecordId>,
    pub sign: bool,
}

impl<M: Malleable> Sent<M> {
    pub fn action(self) -> Action<M> {
        let Sent { to, message, after, sign } = self;
        Action::Send { to, message, after, sign }
    }

    /// Returns the same with a different protocol message.
    pub fn saying(&self, message: M) -> Sent<M> {
        Sent { message: Envelope::Protocol(message), ..self.clone() }
    }

    /// Returns the protocol message, if it is one.
    pub fn said(&self) -> Option<&M> {
        match &self.message {
            Envelope::Protocol(message) => Some(message),
            _ => None,
        }
    }

    pub fn is(&self, purpose: Purpose) -> bool {
        match &self.message {
            Envelope::Protocol(message) => message.purpose() == purpose,
            Envelope::Checkpoint(_) => purpose == Purpose::Vote,
            _ => false,
        }
    }

    /// Returns whether a replica is among the recipients of a message to others.
    pub fn reaches(&self, replica: ReplicaId) -> bool {
        self.to == To::Others || self.to == To::One(replica)
    }
}

/// Returns an unsigned message without dependencies on records.
pub fn unsigned<M>(to: To, message: Envelope<M>) -> Action<M> {
    Action::Send { to, message, after: None, sign: false }
}

/// The step, and the replica's knowledge.
pub struct Step<'a, M> {
    pub now: Time,
    pub context: Context,
    pub memory: &'a mut Memory,
    pub(crate) rivals: &'a mut Rivals<M>,
    pub(crate) held: &'a mut VecDeque<(Time, Action<M>)>,
    /// Number of opportunities to lie that remain to be skipped.
    pub(crate) skipped: &'a mut u32,
    pub out: &'a mut Vec<Action<M>>,
}

impl<M: Malleable> Step<'_, M> {
    /// Sends a message unchanged.
    pub fn pass(&mut self, sent: Sent<M>) {
        self.out.push(sent.action());
    }

    /// Sends a lie instead of a message, if there is one.
    pub fn replace(&mut self, sent: Sent<M>, lie: Option<M>) {
        let sent = lie.map_or(sent.clone(), |lie| sent.saying(lie));
        self.pass(sent);
    }

    /// Sends a message to some of its recipients.
    pub fn pass_to(&mut self, replicas: impl IntoIterator<Item = ReplicaId>, sent: &Sent<M>) {
        let reached = replicas.into_iter().filter(|replica| sent.reaches(*replica));
        self.out.extend(reached.map(|one| Sent { to: To::One(one), ..sent.clone() }.action()));
    }

    /// Keeps an action until it is due.
    pub fn hold(&mut self, due: Time, action: Action<M>) {
        let at = self.held.partition_point(|(earlier, _)| *earlier <= due);
        self.held.insert(at, (due, action));
    }

    /// Returns whether to take this opportunity to lie.
    pub fn seizes(&mut self) -> bool {
        let waits = *self.skipped > 0;
        *self.skipped -= u32::from(waits);
        !waits
    }

    /// Returns the invented rival of a proposal, which the first call creates.
    pub fn rival(&mut self, message: &M, make: impl FnOnce(&M, &Memory) -> Option<M>) -> Option<M> {
        self.rivals.of(message).or_else(|| {
            let lie = make(message, self.memory).filter(|_| self.seizes())?;
            self.memory.read(&Envelope::Protocol(lie.clone()));
            self.rivals.keep(message, lie.clone())?;
            Some(lie)
        })
    }

    /// Returns a vote for the invented rival of this vote's block.
    pub fn vote_for_rival(&self, message: &M) -> Option<M> {
        let honest = message.clone().vote_to_sign()?.subject.digest;
        lie::vote_for(message, self.rivals.instead_of(&honest)?.proposed()?.0)
    }

    /// Sends the invented rival of a proposal, and a vote for the rival instead of one for the proposal.
    pub fn propose_rival(&mut self, sent: Sent<M>, make: impl FnOnce(&M, &Memory) -> Option<M>) {
        let Some(message) = sent.said() else { return self.pass(sent) };
        let lie = self.rival(message, make).or_else(|| self.vote_for_rival(message));
        self.replace(sent, lie);
    }
}
