//! Connects a faulty replica to its host.
//!
//! Messages of a replica to itself are left alone: they are part of its operation, and no other replica sees them. The
//! wrapped replica therefore stays honest and consistent, independently of the messages to others. It may receive
//! references to blocks invented in its name, and gets them as soon as it requests them.

use crate::byzantine::behaviour::{Behaviour, Context};
use crate::byzantine::fault::Misbehaviour;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::memory::Memory;
use crate::byzantine::rivals::Rivals;
use crate::byzantine::step::{Sent, Step, Tactic, unsigned};
use crate::byzantine::times::Times;
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::Time;
use std::collections::VecDeque;

impl Misbehaviour {
    /// Returns the behaviour, boxed for a host.
    pub fn behaviour<M: Malleable>(self, context: Context) -> Box<dyn Behaviour<M>> {
        Box::new(Wrapper::new(self, context))
    }
}

/// The behaviour of a replica with one fault.
pub struct Wrapper<M> {
    tactic: Box<dyn Tactic<M>>,
    times: Times,
    context: Context,
    memory: Memory,
    rivals: Rivals<M>,
    /// Delayed actions in chronological order.
    held: VecDeque<(Time, Action<M>)>,
    /// Number of opportunities to lie that remain to be skipped.
    skipped: u32,
}

impl<M: Malleable> Wrapper<M> {
    /// Returns a wrapper that is honest while the misbehaviour is inactive.
    pub fn new(misbehaviour: Misbehaviour, context: Context) -> Wrapper<M> {
        let Misbehaviour { fault, times } = misbehaviour;
        Wrapper {
            tactic: fault.tactic(),
            times,
            context,
            memory: Memory::default(),
            rivals: Rivals::default(),
            held: VecDeque::new(),
            skipped: fault.skipped(),
        }
    }
}

impl<M: Malleable> Behaviour<M> for Wrapper<M> {
    fn observe(&mut self, input: &Input<M>) {
        self.memory.hear(input);
        self.tactic.hear(input, &self.context);
    }

    fn rewrite(&mut self, now: Time, actions: &mut Vec<Action<M>>) {
        let Wrapper { tactic, context, memory, rivals, held, skipped, .. } = self;
        let (me, is_active) = (context.me, self.times.include(now));
        let honest = std::mem::take(actions);
        let mut step = Step { now, context: *context, memory, rivals, held, skipped, out: actions };
        for action in honest {
            let Action::Send { to, message, after, sign } = action else {
                step.out.push(action);
                continue;
            };
            step.memory.read(&message);
            if !is_active {
                step.out.push(Action::Send { to, message, after, sign });
                continue;
            }
            if let Some(block) = step.rivals.requested_by(&message) {
                step.out.push(unsigned(To::One(me), Envelope::Blocks(vec![block])));
                continue;
            }
            let sent = Sent { to, message, after, sign };
            if to == To::All || to == To::One(me) {
                tactic.send_to_itself(Sent { to: To::One(me), ..sent.clone() }, &mut step);
            }
            if to != To::One(me) {
                tactic.send(Sent { to: if to == To::All { To::Others } else { to }, ..sent }, &mut step);
            }
        }
        if is_active {
            tactic.finish(&mut step);
        }
    }

    fn next(&self) -> Option<Time> {
        self.held.front().map(|(due, _)| *due)
    }

    fn ring(&mut self, now: Time, actions: &mut Vec<Action<M>>) {
        while self.held.front().is_some_and(|(due, _)| *due <= now) {
            actions.extend(self.held.pop_front().map(|(_, action)| action));
        }
    }

    fn answers_clients(&self, now: Time) -> bool {
        !self.tactic.ignores_clients() || !self.times.include(now)
    }

    fn refuses_clients(&self, now: Time) -> bool {
        self.tactic.refuses_clients() && self.times.include(now)
    }
}
