//! State transfer: fetches the state of a checkpoint when the blocks in between are no longer available.

use super::{Event, Pending, Protocol, Replica};
use crate::recovery::frontier::Frontier;
use crate::recovery::journal::Record;
use crate::recovery::transfer::{Answer, Part, Transfer};
use crate::seam::{Action, Drop, Envelope, Mark, To};
use bytes::Bytes;
use quorate_types::{Certificate, Height, ReplicaId, Time};
use std::cmp::Reverse;
use std::time::Duration;

impl<P: Protocol> Replica<P> {
    /// Requests verification of an offer, if it would help.
    pub(super) fn check_offer(&mut self, now: Time, from: ReplicaId, checkpoint: Certificate) {
        if !self.parts.checkpoints.is_one(&checkpoint.subject) {
            return self.drop_message(from, Drop::Malformed);
        }
        if checkpoint.subject.height <= self.committed_height() {
            return self.drop_message(from, Drop::Stale);
        }
        if self.offers.get(&from) == Some(&checkpoint) || bug!(OfferUnverified) {
            return self.on_offer(now, from, checkpoint);
        }
        if self.checks[from.index()] >= super::MAX_CHECKS_PER_PEER {
            return self.drop_message(from, Drop::Overload);
        }
        self.checks[from.index()] += 1;
        let job = self.jobs.ask(Pending::Offer { from, checkpoint: Box::new(checkpoint.clone()) });
        self.out.actions.push(Action::Verify { job, certificates: vec![checkpoint], votes: Vec::new() });
    }

    /// Records a peer's verified offer: the peer has this state, but not the requested blocks or state. Once f+1 peers
    /// offer a state, at least one of them is honest, and the newest offered state is fetched.
    pub(super) fn on_offer(&mut self, now: Time, from: ReplicaId, checkpoint: Certificate) {
        let height = checkpoint.subject.height;
        let known = self.offers.get(&from).map(|offer| offer.subject.height);
        if known < Some(height) {
            self.offers.insert(from, checkpoint);
        }
        let committed = self.committed_height();
        self.offers.retain(|_, offer| offer.subject.height > committed);
        match &self.transfer {
            Some(transfer) if bug!(OfferRestarts) && transfer.height() <= height => {
                self.fetch_state(now);
            }
            None if self.offers.len() >= self.parts.quorum.weak() => self.fetch_state(now),
            _ => {}
        }
    }

    /// Fetches the newest state among the offers of the peers with the fewest void offers, if there is any.
    fn fetch_state(&mut self, now: Time) {
        let rank = |(peer, offer): &(&ReplicaId, &Certificate)| {
            (self.void_offers.get(peer).copied().unwrap_or(0), Reverse(offer.subject.height))
        };
        let best = self.offers.iter().min_by_key(rank).map(|(_, offer)| offer.clone());
        let given_up = self.transfer.take();
        self.transfer = best.map(|checkpoint| {
            self.out.mark(Mark::Fetches { height: checkpoint.subject.height });
            let transfer = Transfer::new(checkpoint, self.parts.quorum, self.parts.me, now);
            transfer.after(given_up)
        });
    }

    /// Abandons a transfer that cannot complete, and starts another. A quorum may certify a checkpoint whose state no
    /// replica keeps; the peers that offered it then lose preference.
    fn give_up_in_vain(&mut self, now: Time, patience: Duration) {
        let in_vain = |transfer: &&mut Transfer| transfer.is_in_vain(now, patience, self.parts.quorum);
        let Some(transfer) = self.transfer.as_mut().filter(in_vain) else { return };
        let (height, is_real) = (transfer.height(), transfer.has_manifest());
        for (peer, _) in self.offers.iter().filter(|(_, offer)| offer.subject.height == height) {
            *self.void_offers.entry(*peer).or_default() += u32::from(!is_real);
        }
        self.offers.retain(|_, offer| offer.subject.height != height);
        self.fetch_state(now);
    }

    /// Requests missing parts of the state, if a request is due.
    pub(super) fn request_state(&mut self, now: Time) {
        let patience = Duration::from_millis(self.parts.config.fetch_retry_ms);
        let committed = self.committed_height();
        // The blocks may have arrived in the meantime.
        self.transfer.take_if(|transfer| transfer.height() <= committed);
        self.give_up_in_vain(now, patience);
        let Some(transfer) = &mut self.transfer else { return };
        if transfer.next_request().is_none_or(|due| due > now) {
            return;
        }
        let height = transfer.height();
        for (peer, part) in transfer.requests(now, patience) {
            let message = Envelope::FetchState { height, part };
            self.out.actions.push(Action::Send { to: To::One(peer), message, after: None, sign: false });
        }
        self.fetch_armed = None;
    }

    /// Handles a part of the state.
    pub(super) fn take_part(&mut self, now: Time, from: ReplicaId, height: Height, part: Part, bytes: Bytes) {
        let Some(transfer) = self.transfer.as_mut().filter(|transfer| transfer.height() == height) else {
            return self.drop_message(from, Drop::Unasked);
        };
        match transfer.on_answer(now, from, part, &bytes) {
            Answer::Lacks => {}
            Answer::Unasked => self.drop_message(from, Drop::Unasked),
            Answer::Forged => self.drop_message(from, Drop::NotGenuine),
            Answer::Manifest(manifest) => self.out.actions.push(Action::ReceiveState { height, manifest }),
            Answer::Chunk(chunk) => {
                self.out.actions.push(Action::KeepChunk { height, chunk, bytes });
                self.adopt_if_complete();
            }
        }
    }

    /// Records that the host is ready to receive chunks, and which chunks it already has.
    pub(super) fn on_held(&mut self, now: Time, height: Height, chunks: &[u32]) {
        if let Some(transfer) = self.transfer.as_mut().filter(|transfer| transfer.height() == height) {
            transfer.on_ready(now, chunks);
            self.adopt_if_complete();
        }
    }

    fn adopt_if_complete(&mut self) {
        let Some(transfer) = &mut self.transfer else { return };
        if transfer.is_complete() {
            self.out.actions.push(Action::AdoptState { checkpoint: Box::new(transfer.checkpoint().clone()) });
        }
    }

    /// Resumes from a checkpoint whose state the host has adopted.
    pub(super) fn on_adopted(&mut self, now: Time, checkpoint: Certificate, frontier: Frontier) {
        let (from, height) = (self.committed_height(), checkpoint.subject.height);
        assert_eq!(frontier.height(), height, "the frontier ends at the checkpoint");
        if height <= from {
            return;
        }
        self.parts.store.adopt(now, frontier, &self.parts.leaders, &mut self.out.whole);
        if height < self.parts.checkpoints.stable().subject.height {
            // A later checkpoint became stable during the transfer. The next line would not record this one, and the
            // journal would not prove the state from which it continues.
            self.out.persist(Record::Certificate(Box::new(checkpoint.clone())));
        }
        self.turn(now).stabilise(checkpoint.clone());
        self.on_kept(checkpoint);
        self.offers.clear();
        self.void_offers.clear();
        self.transfer = None;
        self.out.mark(Mark::Adopted { from, height });
        if self.started {
            self.summarize();
            self.tell(now, Event::Adopted);
        } else {
            // The protocol's part of the summary and the completed blocks are handled at the start of the replica.
            self.begin_summary();
            self.recalled.adopted = true;
            self.out.whole.clear();
        }
    }
}
