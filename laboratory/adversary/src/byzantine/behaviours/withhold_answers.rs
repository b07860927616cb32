//! The fault `withhold-answers`.

use crate::byzantine::kind::{Facts, Kind, Needs};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::Envelope;

/// `withhold-answers`: answers no requests, and is honest otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WithholdAnswers;

impl Kind for WithholdAnswers {
    const FACTS: Facts = Facts { needs: Needs::Questions, ..Facts::omits("withhold-answers") };
    const DEFAULT: WithholdAnswers = WithholdAnswers;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for WithholdAnswers {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let is_answer = matches!(
            sent.message,
            Envelope::Blocks(_)
                | Envelope::Bundles(_)
                | Envelope::Offer { .. }
                | Envelope::StatePart { .. }
                | Envelope::Standing { .. }
        );
        if !is_answer {
            step.pass(sent);
        }
    }
}
