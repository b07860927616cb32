//! The fault `forge-evidence`.

use crate::byzantine::assembler::Assembler;
use crate::byzantine::behaviour::Context;
use crate::byzantine::kind::{Facts, Kind, Needs};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::{Action, Envelope, Input};

/// `forge-evidence`: once per view, presents a forged timeout certificate; in a VIEW-CHANGE, a proof that a nonexistent
/// block was prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForgeEvidence;

impl Kind for ForgeEvidence {
    const FACTS: Facts = Facts { needs: Needs::Inputs, ..Facts::lies("forge-evidence") };
    const DEFAULT: ForgeEvidence = ForgeEvidence;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Forger { assembler: Assembler::default() }
    }
}

struct Forger<M> {
    assembler: Assembler<M>,
}

impl<M: Malleable> Tactic<M> for Forger<M> {
    fn hear(&mut self, input: &Input<M>, context: &Context) {
        self.assembler.hear(context, input);
    }

    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let lie = sent.said().and_then(|message| lie::claim_prepared(message, &step.context));
        step.replace(sent, lie);
    }

    fn finish(&mut self, step: &mut Step<'_, M>) {
        let said = step.out.iter().filter_map(|action| match action {
            Action::Send { message: Envelope::Protocol(message), .. } => message.view(),
            _ => None,
        });
        if let Some(view) = said.max() {
            self.assembler.forge(&step.context, view, step.out);
        }
    }
}
