//! The fault `withhold-bundles`.

use crate::byzantine::kind::{Exposure, Facts, Kind, Needs};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::Envelope;
use quorate_consensus::config::Dissemination;

/// `withhold-bundles`: if replicas spread bundles, keeps its clients' bundles to itself, and answers clients late or
/// never. Danezis et al., "Narwhal and Tusk", EuroSys 2022, section 4.1: a client then turns to another replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WithholdBundles;

impl Kind for WithholdBundles {
    const FACTS: Facts = Facts {
        needs: Needs::Load,
        dissemination: Dissemination::Replicas,
        exposed_by: Exposure::Delays,
        ..Facts::omits("withhold-bundles")
    };
    const DEFAULT: WithholdBundles = WithholdBundles;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for WithholdBundles {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        if !matches!(sent.message, Envelope::Spread(_) | Envelope::Relay(_)) {
            step.pass(sent);
        }
    }
}
