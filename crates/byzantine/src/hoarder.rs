//! A replica that gets bundles certified twice, keeps the certificates, and shows each to the replicas that did not
//! sign it.
//!
//! It lists each bundle in two batches for different quorums, and waits as long as a spreader may before it has the
//! bundles proposed. It gives them to nobody meanwhile: an honest replica that restarts has lost them. Where voters
//! rely on any certificate instead of the one that a block names, those that each certificate leaves out vote for the
//! block, and nobody honest has its bundles.

use crate::behaviour::Context;
use crate::malleable::Malleable;
use quorate_consensus::data::batches::{Batch, Cover};
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{Attachment, Certificate, Digest, ReplicaId, Subject, Time, Vote};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of batches to keep.
const MAX_KEPT: usize = 256;
/// Distance between the numbers of a batch and its double.
const DOUBLE: u64 = 1 << 40;
/// The double follows a batch after this many half view timeouts. Earlier, it is taken for a repetition.
const DOUBLES_AFTER: u32 = 5;
/// Its own acknowledgement takes this many half view timeouts. Later, the batch would be overdue.
const ACKNOWLEDGES_AFTER: u32 = 7;

/// A batch listed a second time.
struct Double {
    batch: Arc<Batch>,
    votes: BTreeMap<ReplicaId, Vote>,
    cover: Option<Cover>,
}

/// Doubles of the replica's batches, with their acknowledgements.
#[derive(Default)]
pub struct Hoarder {
    doubles: VecDeque<Double>,
}

/// Messages besides an honest one, or instead of it.
pub struct Instead<M> {
    /// Before the message.
    pub before: Vec<Action<M>>,
    /// Whether the message itself is sent.
    pub sends: bool,
    /// At later times.
    pub later: Vec<(Time, Action<M>)>,
}

impl<M> Instead<M> {
    fn nothing() -> Instead<M> {
        Instead { before: Vec::new(), sends: false, later: Vec::new() }
    }
}

fn send<M>(to: To, message: Envelope<M>, sign: bool) -> Action<M> {
    Action::Send { to, message, after: None, sign }
}

impl Hoarder {
    /// Records acknowledgements of doubles, and assembles their certificates.
    pub fn hear<M: Malleable>(&mut self, context: &Context, input: &Input<M>) {
        let Input::Receive { from, message: Envelope::Stored(vote) } = input else { return };
        let of = |double: &&mut Double| double.batch.subject() == vote.subject && vote.voter == *from;
        let Some(double) = self.doubles.iter_mut().find(of) else { return };
        double.votes.insert(*from, vote.clone());
        if double.cover.is_none() && double.votes.len() >= context.quorum.quorum() {
            let certificate = Certificate {
                subject: vote.subject,
                signers: double.votes.keys().copied().collect(),
                attachments: Vec::new(),
                proof: double
                    .votes
                    .values()
                    .flat_map(|vote| vote.signature.iter().copied())
                    .collect::<Vec<u8>>()
                    .into(),
            };
            double.cover = Some(Cover { batch: double.batch.clone(), certificate });
        }
    }

    /// Returns when the replica acknowledges its own batch, so that it is certified as late as possible.
    pub fn acknowledges_at(context: &Context, now: Time) -> Time {
        now + half(context) * ACKNOWLEDGES_AFTER
    }

    /// Returns the messages that accompany or replace an honest message to others.
    pub fn instead<M: Malleable>(&mut self, context: &Context, now: Time, message: &Envelope<M>) -> Instead<M> {
        match message {
            Envelope::Batch(batch) => self.list_twice(context, now, batch),
            // A replica with the certificate and the bundles could have them ordered.
            Envelope::Certified(_) | Envelope::Relay(_) | Envelope::Bundles(_) => Instead::nothing(),
            Envelope::Protocol(said) => {
                let payload = said.proposed().map(|(block, _)| &block.payload[..]).unwrap_or_default();
                Instead { before: self.show(context, payload), sends: true, later: Vec::new() }
            }
            _ => Instead { sends: true, ..Instead::nothing() },
        }
    }

    /// Shows the certificates of the doubles that list bundles of a block, each to the replicas that did not sign it.
    fn show<M>(&self, context: &Context, payload: &[Digest]) -> Vec<Action<M>> {
        let names = |cover: &&Cover| cover.batch.entries().iter().any(|entry| payload.contains(&entry.bundle));
        let kept = self.doubles.iter().filter_map(|double| double.cover.as_ref()).filter(names);
        let shown = kept.flat_map(|cover| {
            let left_out = context.others().filter(|other| !cover.certificate.signers.contains(*other));
            left_out.map(|other| send(To::One(other), Envelope::Covers(vec![cover.clone()]), false))
        });
        shown.collect()
    }

    fn list_twice<M: Malleable>(&mut self, context: &Context, now: Time, batch: &Arc<Batch>) -> Instead<M> {
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
        let list = |to: &ReplicaId, batch: &Arc<Batch>| send(To::One(*to), Envelope::Batch(batch.clone()), false);
        let due = now + half(context) * DOUBLES_AFTER;
        let again = others[others.len() - signers..].iter().map(|other| list(other, &double));
        let own = send(To::One(context.me), Envelope::Stored(own), true);
        Instead {
            before: others[..signers].iter().map(|other| list(other, batch)).collect(),
            sends: false,
            later: again.chain([own]).map(|action| (due, action)).collect(),
        }
    }
}

fn half(context: &Context) -> Duration {
    context.view_timeout / 2
}
