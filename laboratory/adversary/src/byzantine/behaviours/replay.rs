//! The fault `replay`.

use crate::byzantine::behaviour::Context;
use crate::byzantine::kind::{Exposure, Facts, Kind};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::{Envelope, Input};
use std::collections::VecDeque;

/// Number of messages to keep.
const MAX_KEPT: usize = 64;

/// `replay`: after each message, repeats an old one in its own name, either its own or another replica's. Castro and
/// Liskov, "Practical Byzantine fault tolerance", OSDI 1999, section 2: the network may do that too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replay;

impl Kind for Replay {
    const FACTS: Facts = Facts { exposed_by: Exposure::Drops, ..Facts::omits("replay") };
    const DEFAULT: Replay = Replay;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Repeated { kept: VecDeque::new() }
    }
}

struct Repeated<M> {
    /// Old messages. The flag is true for the replica's own messages, which need a signature.
    kept: VecDeque<(M, bool)>,
}

impl<M> Repeated<M> {
    fn keep(&mut self, message: M, own: bool) {
        if self.kept.len() == MAX_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((message, own));
    }
}

impl<M: Malleable> Tactic<M> for Repeated<M> {
    fn hear(&mut self, input: &Input<M>, context: &Context) {
        if let Input::Receive { from, message: Envelope::Protocol(message) } = input
            && *from != context.me
        {
            self.keep(message.clone(), false);
        }
    }

    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let Some(message) = sent.said().cloned() else { return step.pass(sent) };
        let old = self.kept.front().cloned();
        self.kept.rotate_left(self.kept.len().min(1));
        self.keep(message, sent.sign);
        let again = old.map(|(message, sign)| Sent { after: None, sign, ..sent.saying(message) });
        step.pass(sent);
        step.out.extend(again.map(Sent::action));
    }
}
