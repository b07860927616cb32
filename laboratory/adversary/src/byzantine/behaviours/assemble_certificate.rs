//! The fault `assemble-certificate`.

use crate::byzantine::assembler::Assembler;
use crate::byzantine::behaviour::Context;
use crate::byzantine::kind::{Facts, Kind, Needs, number};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::Input;
use quorate_consensus::seam::Purpose;

/// Default, far above any view that a run reaches.
const DEFAULT_VIEWS_AHEAD: u64 = 1 << 63;

/// `assemble-certificate`, `assemble-certificate=VIEWS`: once it has received the timeouts of a quorum minus one, adds
/// its own statement, assembles the certificate and presents it before any other replica can have one. Its statement
/// reports a certificate this many views above the highest, by default the highest possible; with 0 it reports genesis.
/// It proposes nothing. This is why Aptos' timeout certificates carry the certificate that they report
/// (`TwoChainTimeoutCertificate`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssembleCertificate {
    /// Views above the highest certificate.
    pub views: u64,
}

impl Kind for AssembleCertificate {
    const FACTS: Facts = Facts { needs: Needs::Inputs, ..Facts::lies("assemble-certificate") };
    const DEFAULT: AssembleCertificate = AssembleCertificate { views: DEFAULT_VIEWS_AHEAD };

    fn parse(parameter: &str) -> Result<AssembleCertificate, String> {
        Ok(AssembleCertificate { views: number(parameter, 0)? })
    }

    fn parameter(&self) -> String {
        self.views.to_string()
    }

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Assembling { views: self.views, assembler: Assembler::default() }
    }
}

struct Assembling<M> {
    views: u64,
    assembler: Assembler<M>,
}

impl<M: Malleable> Tactic<M> for Assembling<M> {
    fn hear(&mut self, input: &Input<M>, context: &Context) {
        self.assembler.hear(context, input);
    }

    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        // A block of its own would help the replicas that its certificates have stalled.
        if !sent.is(Purpose::Proposal) {
            step.pass(sent);
        }
    }

    fn finish(&mut self, step: &mut Step<'_, M>) {
        self.assembler.assemble(&step.context, self.views, step.out);
    }
}
