//! The fault `barren`.

use crate::byzantine::kind::{Exposure, Facts, Kind, Needs};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};

/// `barren`: as a leader, builds on the grandparent and proposes the commands of the skipped parent again, along with
/// new ones. If replicas may vote for such blocks, they are certified and contain the pending commands, but never
/// commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Barren;

impl Kind for Barren {
    const FACTS: Facts = Facts { needs: Needs::Load, exposed_by: Exposure::Delays, ..Facts::lies("barren") };
    const DEFAULT: Barren = Barren;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for Barren {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        step.propose_rival(sent, lie::barren);
    }
}
