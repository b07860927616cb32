//! The fault `hoard-certificates`.

use crate::byzantine::behaviour::Context;
use crate::byzantine::kind::{Exposure, Facts, Kind, Needs};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic, unsigned};
use quorate_consensus::config::Dissemination;
use quorate_consensus::data::batches::{Batch, Cover};
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{Attachment, Certificate, Digest, ReplicaId, Subject, Vote};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of batches to keep.
const MAX_KEPT: usize = 256;
/// Difference between the numbers of a batch and of its double.
const DOUBLE: u64 = 1 << 40;
/// Delay of the double after its batch, in half view timeouts. An earlier one would count as a retransmission.
const DOUBLES_AFTER: u32 = 5;
/// Delay of its own acknowledgement, in half view timeouts. A later one would make the batch overdue.
const ACKNOWLEDGES_AFTER: u32 = 7;

/// `hoard-certificates`: if bundles are proposed only when n-f replicas hold them, lists each bundle in two batches for
/// different quorums, and keeps their certificates as long as possible. When the bundles are proposed, it presents each
/// certificate to the replicas that did not sign it. It gives the bundles to no one else, so an honest replica that
/// restarts has lost them. If voters rely on any certificate rather than the one named in the block, the replicas
/// outside each certificate's signers vote for the block, and no honest replica has its bundles. This was a bug of our
/// own (museum exhibit 38).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoardCertificates;

impl Kind for HoardCertificates {
    const FACTS: Facts = Facts {
        needs: Needs::Load,
        dissemination: Dissemination::ReplicasCertified,
        exposed_by: Exposure::Delays,
        ..Facts::lies("hoard-certificates")
    };
    const DEFAULT: HoardCertificates = HoardCertificates;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Hoarder { doubles: VecDeque::new() }
    }
}

/// A batch listed a second time.
struct Double {
    batch: Arc<Batch>,
    votes: BTreeMap<ReplicaId, Vote>,
    cover: Option<Cover>,
}

struct Hoarder {
    doubles: VecDeque<Double>,
}

impl<M: Malleable> Tactic<M> for Hoarder {
    /// Records acknowledgements of doubles, and assembles their certificates.
    fn hear(&mut self, input: &Input<M>, context: &Context) {
        let Input::Receive { from, message: Envelope::Stored(vote) } = input else { return };
        let of = |double: &&mut Double| double.batch.subject() == vote.subject && vote.voter == *from;
        let Some(double) = self.doubles.iter_mut().find(of) else { return };
        double.votes.insert(*from, vote.clone());
        if double.cover.is_none() && double.votes.len() >= context.quorum.quorum() {
            let signatures = double.votes.values().flat_map(|vote| vote.signature.iter().copied());
            let certificate = Certificate {
                subject: vote.subject,
                signers: double.votes.keys().copied().collect(),
                attachments: Vec::new(),
                proof: signatures.collect::<Vec<u8>>().into(),
            };
            double.cover = Some(Cover { batch: double.batch.clone(), certificate });
        }
    }

    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        match &sent.message {
            Envelope::Batch(batch) => self.list_twice(batch, step),
            // A replica with the certificate and the bundles could have them ordered.
            Envelope::Certified(_) | Envelope::Relay(_) | Envelope::Bundles(_) => {}
            Envelope::Protocol(said) => {
                let payload = said.proposed().map(|(block, _)| &block.payload[..]).unwrap_or_default();
                step.out.extend(self.show(&step.context, payload));
                step.pass(sent);
            }
            _ => step.pass(sent),
        }
    }

    /// Delays the acknowledgement of its own batch, so that the batch is certified as late as possible.
    fn send_to_itself(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        match sent.message {
            Envelope::Stored(_) => step.hold(step.now + half(&step.context) * ACKNOWLEDGES_AFTER, sent.action()),
            _ => step.pass(sent),
        }
    }
}

impl Hoarder {
    /// Presents the certificates of the doubles that list bundles of a block, each to the replicas that did not sign
    /// it.
    fn show<M>(&self, context: &Context, payload: &[Digest]) -> Vec<Action<M>> {
        let names = |cover: &&Cover| cover.batch.entries().iter().any(|entry| payload.contains(&entry.bundle));
        let kept = self.doubles.iter().filter_map(|double| double.cover.as_ref()).filter(names);
        let shown = kept.flat_map(|cover| {
            let left_out = context.others().filter(|other| !cover.certificate.signers.contains(*other));
            left_out.map(|other| unsigned(To::One(other), Envelope::Covers(vec![cover.clone()])))
        });
        shown.collect()
    }

    fn list_twice<M: Malleable>(&mut self, batch: &Arc<Batch>, step: &mut Step<'_, M>) {
        let context = step.context;
        let others: Vec<ReplicaId> = context.others().collect();
        let signers = context.quorum.quorum() - 1;
        let Subject { height, .. } = batch.subject();
        let double = Arc::new(Batch::new(context.me, height.0 + DOUBLE, batch.until(), batch.entries().to_vec()));
        let own = Vote {
            subject: double.subject(),
            attachment: Attachment::None,
            voter: context.me,
            signature: bytes::Bytes::new(),
        };
        if self.doubles.len() == MAX_KEPT {
            self.doubles.pop_front();
        }
        self.doubles.push_back(Double { batch: double.clone(), votes: BTreeMap::new(), cover: None });
        let list = |to: &ReplicaId, batch: &Arc<Batch>| unsigned(To::One(*to), Envelope::Batch(batch.clone()));
        step.out.extend(others[..signers].iter().map(|other| list(other, batch)));
        let due = step.now + half(&context) * DOUBLES_AFTER;
        others[others.len() - signers..].iter().for_each(|other| step.hold(due, list(other, &double)));
        let own = Action::Send { to: To::One(context.me), message: Envelope::Stored(own), after: None, sign: true };
        step.hold(due, own);
    }
}

fn half(context: &Context) -> Duration {
    context.view_timeout / 2
}
