//! The fault `equivocate-batches`.

use crate::byzantine::kind::{Exposure, Facts, Kind, Needs};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::config::Dissemination;
use quorate_consensus::data::batches::Batch;
use quorate_consensus::{Envelope, To};
use quorate_types::ReplicaId;
use std::sync::Arc;

/// `equivocate-batches`: if bundles are proposed only when n-f replicas hold them, sends each of the others a different
/// batch with the same number, so that no quorum acknowledges the same list. Danezis et al., EuroSys 2022, section 3.1,
/// equivocating blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EquivocateBatches;

impl Kind for EquivocateBatches {
    const FACTS: Facts = Facts {
        needs: Needs::Load,
        dissemination: Dissemination::ReplicasCertified,
        exposed_by: Exposure::Delays,
        ..Facts::omits("equivocate-batches")
    };
    const DEFAULT: EquivocateBatches = EquivocateBatches;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for EquivocateBatches {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let (Envelope::Batch(batch), after) = (&sent.message, sent.after) else { return step.pass(sent) };
        for other in step.context.others() {
            let message = Envelope::Batch(batch_for(other, batch));
            step.out.push(Sent { to: To::One(other), message, after, sign: false }.action());
        }
    }
}

/// Returns the batch for one replica: the first bundle is repeated, a different number of times for each replica.
fn batch_for(other: ReplicaId, batch: &Batch) -> Arc<Batch> {
    let mut entries = batch.entries().to_vec();
    let first = entries[0];
    entries.extend(std::iter::repeat_n(first, usize::from(other.0)));
    Arc::new(Batch::new(batch.spreader(), batch.subject().height.0, batch.until(), entries))
}
