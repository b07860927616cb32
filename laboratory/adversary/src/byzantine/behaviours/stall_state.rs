//! The fault `stall-state`.

use crate::byzantine::kind::{Exposure, Facts, Kind, Needs};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::Envelope;

/// `stall-state`: offers a state, but does not answer replicas that fetch it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StallState;

impl Kind for StallState {
    const FACTS: Facts = Facts { needs: Needs::States, exposed_by: Exposure::Delays, ..Facts::omits("stall-state") };
    const DEFAULT: StallState = StallState;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for StallState {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        if !matches!(sent.message, Envelope::StatePart { .. }) {
            step.pass(sent);
        }
    }
}
