//! The fault `corrupt-share`.

use crate::byzantine::kind::{Facts, Kind};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::Envelope;

/// `corrupt-share`: its votes and timeouts carry an invalid signature, so no certificate can include them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CorruptShare;

impl Kind for CorruptShare {
    const FACTS: Facts = Facts { may_wait: true, ..Facts::lies("corrupt-share") };
    const DEFAULT: CorruptShare = CorruptShare;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for CorruptShare {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let shape = step.context.shape;
        let corrupt = match &sent.message {
            Envelope::Protocol(message) if sent.sign => lie::corrupt(message, shape).map(Envelope::Protocol),
            Envelope::Checkpoint(vote) => Some(Envelope::Checkpoint(lie::corrupt_vote(vote, shape))),
            _ => None,
        };
        // The host must not sign it.
        let lie = corrupt.filter(|_| step.seizes()).map(|message| Sent { message, sign: false, ..sent.clone() });
        step.pass(lie.unwrap_or(sent));
    }
}
