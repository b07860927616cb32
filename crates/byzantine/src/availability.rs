//! Lies about which bundles are stored.

use crate::behaviour::Context;
use crate::fault::Fault;
use crate::lie;
use quorate_consensus::data::batches::{Batch, Cover};
use quorate_consensus::{Envelope, Message, To};
use quorate_types::{Certificate, ReplicaId, Signers};
use std::sync::Arc;

/// Returns what a replica with [`Fault::ForgeAcknowledgements`] or [`Fault::EquivocateBatches`] sends instead of an
/// honest message, unsigned; `None` if it sends the message.
pub(crate) fn instead<M: Message>(
    context: &Context,
    fault: Fault,
    to: To,
    message: &Envelope<M>,
) -> Option<Vec<(To, Envelope<M>)>> {
    match (fault, message) {
        (Fault::ForgeAcknowledgements, Envelope::Stored(vote)) => {
            Some(vec![(to, Envelope::Stored(lie::corrupt_vote(vote, context.shape)))])
        }
        (Fault::ForgeAcknowledgements, Envelope::Batch(batch)) => {
            let certificate = unsigned_certificate(context, batch);
            let cover = Cover { batch: batch.clone(), certificate: certificate.clone() };
            Some(vec![
                (to, message.clone()),
                (to, Envelope::Certified(Box::new(certificate))),
                (to, Envelope::Covers(vec![cover])),
            ])
        }
        (Fault::EquivocateBatches, Envelope::Batch(batch)) => {
            let listed = |other| (To::One(other), Envelope::Batch(batch_for(other, batch)));
            Some(context.others().map(listed).collect())
        }
        _ => None,
    }
}

/// Returns the batch as listed for one replica: the first bundle is repeated, a different number of times for each.
fn batch_for(other: ReplicaId, batch: &Batch) -> Arc<Batch> {
    let mut entries = batch.entries().to_vec();
    let first = entries[0];
    entries.extend(std::iter::repeat_n(first, usize::from(other.0)));
    Arc::new(Batch::new(batch.spreader(), batch.subject().height.0, batch.until(), entries))
}

fn unsigned_certificate(context: &Context, batch: &Batch) -> Certificate {
    let signers: Signers = context.others().take(context.quorum.quorum()).collect();
    let proof = lie::not_signatures(context.shape.proof_bytes(signers.len()));
    Certificate { subject: batch.subject(), signers, attachments: Vec::new(), proof }
}
