//! The fault `forge-state`.

use crate::byzantine::kind::{Exposure, Facts, Kind, Needs};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::Envelope;

/// `forge-state`: flips one bit in every part of a state that it sends to a replica. Castro and Liskov, "Proactive
/// recovery in a Byzantine-fault-tolerant system", OSDI 2000, fetch states from peers that may forge them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForgeState;

impl Kind for ForgeState {
    const FACTS: Facts =
        Facts { may_wait: true, needs: Needs::States, exposed_by: Exposure::Drops, ..Facts::omits("forge-state") };
    const DEFAULT: ForgeState = ForgeState;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for ForgeState {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let forged = match &sent.message {
            Envelope::StatePart { height, part, bytes } if step.seizes() => {
                Envelope::StatePart { height: *height, part: *part, bytes: lie::forge_part(*part, bytes) }
            }
            _ => return step.pass(sent),
        };
        step.pass(Sent { message: forged, ..sent });
    }
}
