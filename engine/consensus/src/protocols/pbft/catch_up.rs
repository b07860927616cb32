//! Repair of losses: a replica reports its status, and replicas that are ahead send the missing data.
//!
//! A slot executed by others needs no proof: if f+1 replicas report the same block, at least one of them is honest. The
//! block is then fetched by its digest. Votes that are still needed are resent.

use super::engine::Engine;
use super::inquiry::Inquiry;
use super::log::MAX_CLAIMED;
use super::message::{MAX_DECIDED, PbftMessage, PrePrepare, Turn};
use super::view_change_evidence::ViewChangeEvidence;
use crate::data::answers::Question;
use crate::protocols::protocol::Admission;
use crate::seam::{Timer, To};
use quorate_types::{Attachment, Certificate, Digest, Domain, Height, ReplicaId, Subject, View, Vote};

/// Maximum number of slots whose votes are resent per answer.
const MAX_RESENT_SLOTS: usize = 64;
/// Maximum bytes of the bundles sent along.
const MAX_RESENT_BUNDLE_BYTES: usize = 1 << 20;

impl<S: ViewChangeEvidence> Engine<S> {
    /// Requests missed messages from the others, and repeats the request with growing pauses: answers may be lost, and
    /// peers that execute a slot at different times confirm it only together.
    pub(super) fn inquire(&mut self, turn: &mut Turn<'_>) {
        self.inquiry = Some(Inquiry::begin(turn.now, &turn.parts.config));
        self.ask_status(turn);
        self.arm_inquiry(turn);
    }

    /// Repeats the request if that is due. A replica with pending work asks anyway while it waits.
    pub(super) fn inquire_again(&mut self, turn: &mut Turn<'_>) {
        let Some(inquiry) = &mut self.inquiry else { return };
        if inquiry.due() <= turn.now {
            if !inquiry.goes_on(turn.now) {
                self.inquiry = None;
            }
            self.ask_status(turn);
        }
        self.arm_inquiry(turn);
    }

    /// Arms the view timer, unless it is armed because there is work.
    fn arm_inquiry(&mut self, turn: &mut Turn<'_>) {
        if let Some(inquiry) = self.inquiry.as_ref().filter(|_| !turn.parts.pacemaker.is_working()) {
            turn.out.arm(Timer::View, inquiry.due().since(turn.now));
        }
    }

    /// Reports this replica's view and committed height to the others.
    pub(super) fn ask_status(&mut self, turn: &mut Turn<'_>) {
        let (view, committed) = (turn.view(), turn.committed());
        turn.out.send(To::Others, PbftMessage::Status { view, committed });
    }

    /// Reports the first view in which this replica can vote again after amnesia. The report does not bind it, but
    /// informs replicas in lower views that it cannot vote there.
    pub(super) fn seek_view(&mut self, turn: &mut Turn<'_>) {
        let (view, committed) = (turn.parts.safety.abstains().next(), turn.committed());
        turn.out.send(To::Others, PbftMessage::Status { view, committed });
    }

    pub(super) fn on_status(&mut self, from: ReplicaId, view: View, committed: Height, turn: &mut Turn<'_>) {
        if view > turn.view() {
            self.seeks.insert(from, view);
            self.try_open(turn);
        }
        self.help(from, view, true, committed, turn);
    }

    pub(super) fn admit_decided(&self, checkpoint: Option<&Certificate>) -> Admission {
        Admission::Check(checkpoint.filter(|proof| self.is_news(proof)).cloned().into_iter().collect())
    }

    /// Requests the next batch once everything reported so far is executed, if peers have more.
    pub(super) fn ask_for_more(&mut self, turn: &mut Turn<'_>) {
        if self.reported_up_to.is_some_and(|slot| slot <= turn.committed()) {
            self.reported_up_to = None;
            self.ask_status(turn);
        }
    }

    fn is_news(&self, proof: &Certificate) -> bool {
        let Subject { domain, view, height, .. } = proof.subject;
        domain == Domain::Checkpoint && view == View(0) && height > self.log.low()
    }

    /// Answers a peer that is in `view`, open there if `active`, and has executed everything up to `committed`.
    pub(super) fn help(&mut self, to: ReplicaId, view: View, active: bool, committed: Height, turn: &mut Turn<'_>) {
        if to == turn.parts.me {
            return;
        }
        let behind = view < turn.view() || (view == turn.view() && !active);
        let opening = self.opening.as_ref().filter(|_| behind && self.active);
        let lacks = committed < turn.committed();
        let votes_with = self.active && active && view == turn.view();
        let any_votes = votes_with && self.log.slots.range(committed.next()..).next().is_some();
        if opening.is_none() && !lacks && !any_votes {
            return;
        }
        if let Err(why) = turn.parts.answers.admit(turn.now, to, Question::Place(view, committed)) {
            return turn.out.drop_message(to, why);
        }
        if let Some(opening) = opening {
            turn.parts.answers.charge(to, opening.proof_bytes());
            turn.out.send(To::One(to), PbftMessage::NewView(opening.clone()));
        }
        if lacks {
            self.tell_decided(to, committed, turn);
        }
        if any_votes {
            self.resend(to, committed, turn);
        }
    }

    fn tell_decided(&self, to: ReplicaId, above: Height, turn: &mut Turn<'_>) {
        let kept = turn.parts.store.tree.committed_above(above).take(MAX_DECIDED);
        let contiguous = kept.zip(above.0 + 1..).filter(|((slot, _), expected)| slot.0 == *expected);
        let digests: Vec<Digest> = contiguous.map(|((_, digest), _)| digest).collect();
        turn.parts.answers.charge(to, digests.len() * size_of::<Digest>());
        if digests.is_empty() && turn.offer_state(to, above) {
            return;
        }
        let checkpoint = (self.log.low() > above).then(|| Box::new(self.log.stable.clone()));
        if !digests.is_empty() || checkpoint.is_some() {
            turn.out.send(To::One(to), PbftMessage::Decided { above, digests, checkpoint });
        }
    }

    /// Repeats this replica's statements in the current view on the slots above `committed`. The peer fetches bundles
    /// beyond the size limit.
    pub(super) fn resend(&mut self, to: ReplicaId, committed: Height, turn: &mut Turn<'_>) {
        let (view, me) = (turn.view(), turn.parts.me);
        let primary = self.primary(view, turn.parts) == me;
        let vote = |domain, height, digest| {
            let subject = Subject { domain, view, height, digest };
            Vote { subject, attachment: Attachment::None, voter: me, signature: bytes::Bytes::new() }
        };
        let mut bundle_bytes = 0;
        for (slot, entry) in self.log.slots.range(committed.next()..).take(MAX_RESENT_SLOTS) {
            if let Some(digest) = entry.prepare_cast {
                let prepare = vote(Domain::Prepare, *slot, digest);
                let fresh = turn.parts.store.tree.get(&digest).filter(|block| primary && block.view == view);
                let message = match fresh.filter(|block| !block.payload.is_empty()).cloned() {
                    Some(block) => {
                        turn.show_covers(To::One(to), &block);
                        let mut bundles = turn.parts.carried_bundles(&block);
                        bundle_bytes += bundles.iter().map(|bundle| bundle.body().len()).sum::<usize>();
                        if bundle_bytes > MAX_RESENT_BUNDLE_BYTES {
                            bundles.clear();
                        }
                        PbftMessage::PrePrepare(Box::new(PrePrepare { endorsement: prepare, block, bundles }))
                    }
                    None => PbftMessage::Prepare(prepare),
                };
                turn.parts.answers.charge(to, 0);
                turn.out.recast(To::One(to), message);
            }
            if let Some(digest) = entry.commit_cast {
                turn.parts.answers.charge(to, 0);
                turn.out.recast_unsigned(To::One(to), PbftMessage::Commit(vote(Domain::Commit, *slot, digest)));
            }
        }
        turn.parts.answers.charge(to, bundle_bytes.min(MAX_RESENT_BUNDLE_BYTES));
    }

    pub(super) fn on_decided(
        &mut self,
        from: ReplicaId,
        above: Height,
        digests: Vec<Digest>,
        checkpoint: Option<Box<Certificate>>,
        turn: &mut Turn<'_>,
    ) {
        let more = digests.len() == MAX_DECIDED;
        if let Some(checkpoint) = checkpoint.filter(|proof| self.is_news(proof)) {
            self.stabilise(*checkpoint, turn);
        }
        let (view, mut last) = (turn.view(), None);
        for (slot, digest) in (above.0.saturating_add(1)..).map(Height).zip(digests) {
            let committed = turn.committed();
            let far = slot.0 > committed.0 + MAX_CLAIMED && !bug!(FarClaimsKept);
            if slot <= committed || far || self.log.decided.contains_key(&slot) {
                continue;
            }
            let claims = self.claims.entry(slot).or_default();
            claims.insert(from, digest);
            let enough = if bug!(ClaimDecides) { 1 } else { turn.parts.quorum.weak() };
            if claims.values().filter(|claimed| **claimed == digest).count() >= enough {
                last = Some(slot);
                // It was proposed long ago, so do not wait for it to arrive.
                turn.parts.store.fetch_block(turn.now, digest, slot, from);
                self.decide(slot, digest, view, turn);
                if let Some(inquiry) = &mut self.inquiry {
                    *inquiry = Inquiry::begin(turn.now, &turn.parts.config);
                }
            }
        }
        // Once for the whole batch: its blocks may have arrived before, and are executed one by one.
        self.reported_up_to = last.filter(|_| more).or(self.reported_up_to);
        self.ask_for_more(turn);
        self.work(turn);
    }
}
