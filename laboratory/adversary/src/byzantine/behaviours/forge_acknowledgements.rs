//! The fault `forge-acknowledgements`.

use crate::byzantine::behaviour::Context;
use crate::byzantine::kind::{Exposure, Facts, Kind, Needs};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::Envelope;
use quorate_consensus::config::Dissemination;
use quorate_consensus::data::batches::{Batch, Cover};
use quorate_types::{Certificate, Signers};

/// `forge-acknowledgements`: if bundles are proposed only when n-f replicas hold them, sends acknowledgements with
/// invalid signatures, and presents forged certificates of its batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForgeAcknowledgements;

impl Kind for ForgeAcknowledgements {
    const FACTS: Facts = Facts {
        needs: Needs::Load,
        dissemination: Dissemination::ReplicasCertified,
        exposed_by: Exposure::Drops,
        ..Facts::omits("forge-acknowledgements")
    };
    const DEFAULT: ForgeAcknowledgements = ForgeAcknowledgements;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for ForgeAcknowledgements {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let messages = match &sent.message {
            Envelope::Stored(vote) => vec![Envelope::Stored(lie::corrupt_vote(vote, step.context.shape))],
            Envelope::Batch(batch) => {
                let certificate = unsigned_certificate(&step.context, batch);
                let cover = Cover { batch: batch.clone(), certificate: certificate.clone() };
                let certified = Envelope::Certified(Box::new(certificate));
                vec![sent.message.clone(), certified, Envelope::Covers(vec![cover])]
            }
            _ => return step.pass(sent),
        };
        messages.into_iter().for_each(|message| step.pass(Sent { message, sign: false, ..sent.clone() }));
    }
}

fn unsigned_certificate(context: &Context, batch: &Batch) -> Certificate {
    let signers: Signers = context.others().take(context.quorum.quorum()).collect();
    let proof = lie::not_signatures(context.shape.proof_bytes(signers.len()));
    Certificate { subject: batch.subject(), signers, attachments: Vec::new(), proof }
}
