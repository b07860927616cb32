//! The fault `spread-to-one`.

use crate::byzantine::kind::{Exposure, Facts, Kind, Needs, replica};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::config::Dissemination;
use quorate_consensus::{Envelope, To};
use quorate_types::{ReplicaId, Signers};

/// `spread-to-one`, `spread-to-one=R`: if replicas spread bundles, sends its clients' bundles to one replica only, by
/// default to the next one in ring order. If that replica leads, its blocks name bundles that all others lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpreadToOne {
    /// The only recipient; `None` means the default.
    pub recipient: Option<ReplicaId>,
}

impl Kind for SpreadToOne {
    const FACTS: Facts = Facts {
        needs: Needs::Load,
        dissemination: Dissemination::Replicas,
        exposed_by: Exposure::Delays,
        ..Facts::omits("spread-to-one")
    };
    const DEFAULT: SpreadToOne = SpreadToOne { recipient: None };

    fn parse(parameter: &str) -> Result<SpreadToOne, String> {
        Ok(SpreadToOne { recipient: Some(replica(parameter)?) })
    }

    fn parameter(&self) -> String {
        self.recipient.map(|one| one.to_string()).unwrap_or_default()
    }

    fn named(&self) -> Signers {
        self.recipient.into_iter().collect()
    }

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for SpreadToOne {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        if !matches!(sent.message, Envelope::Spread(_)) {
            return step.pass(sent);
        }
        let one = self.recipient.or_else(|| step.context.others().next());
        step.out.extend(one.map(|one| Sent { to: To::One(one), ..sent }.action()));
    }
}
