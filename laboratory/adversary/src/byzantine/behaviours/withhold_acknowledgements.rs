//! The fault `withhold-acknowledgements`.

use crate::byzantine::kind::{Facts, Kind, Needs};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::Envelope;
use quorate_consensus::config::Dissemination;

/// `withhold-acknowledgements`: if bundles are proposed only when n-f replicas hold them, stores bundles but never
/// acknowledges them. Danezis et al., EuroSys 2022, section 3.1: the other n-f suffice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WithholdAcknowledgements;

impl Kind for WithholdAcknowledgements {
    const FACTS: Facts = Facts {
        needs: Needs::Load,
        dissemination: Dissemination::ReplicasCertified,
        ..Facts::omits("withhold-acknowledgements")
    };
    const DEFAULT: WithholdAcknowledgements = WithholdAcknowledgements;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for WithholdAcknowledgements {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        if !matches!(sent.message, Envelope::Stored(_)) {
            step.pass(sent);
        }
    }
}
