//! The fault `withhold-votes`.

use crate::byzantine::kind::{Facts, Kind};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::seam::Purpose;

/// `withhold-votes`: receives and leads, but does not vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WithholdVotes;

impl Kind for WithholdVotes {
    const FACTS: Facts = Facts::omits("withhold-votes");
    const DEFAULT: WithholdVotes = WithholdVotes;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for WithholdVotes {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        if !sent.is(Purpose::Vote) {
            step.pass(sent);
        }
    }
}
