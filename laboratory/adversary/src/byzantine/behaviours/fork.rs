//! The fault `fork`.

use crate::byzantine::kind::{Exposure, Facts, Kind};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};

/// `fork`: as a leader, builds on the grandparent, so that the parent and its commands are abandoned. The "slow" leader
/// of Gogada et al., ApPLIED 2023, section 5.2.2; the forking attack of Niu et al., "On the performance of pipelined
/// HotStuff", INFOCOM 2021. If slots have no parents, it proposes the block for the previous slot, which already has
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fork;

impl Kind for Fork {
    const FACTS: Facts = Facts { may_wait: true, exposed_by: Exposure::Evidence, ..Facts::lies("fork") };
    const DEFAULT: Fork = Fork;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for Fork {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        step.propose_rival(sent, lie::fork);
    }
}
