//! The fault `double-vote`.

use crate::byzantine::kind::{Exposure, Facts, Kind};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::Envelope;

/// `double-vote`: with each vote, also votes for another block: one that it received for the same view (and slot), or
/// else an invented one. Bano et al., OPODIS 2021, section 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoubleVote;

impl Kind for DoubleVote {
    const FACTS: Facts = Facts { may_wait: true, exposed_by: Exposure::Evidence, ..Facts::lies("double-vote") };
    const DEFAULT: DoubleVote = DoubleVote;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for DoubleVote {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let second = match &sent.message {
            Envelope::Protocol(message) => lie::contradict(message, step.memory).map(Envelope::Protocol),
            Envelope::Checkpoint(vote) => Some(Envelope::Checkpoint(lie::contradict_checkpoint(vote))),
            _ => None,
        };
        let second = second.filter(|_| step.seizes()).map(|message| Sent { message, ..sent.clone() });
        step.pass(sent);
        step.out.extend(second.map(Sent::action));
    }
}
