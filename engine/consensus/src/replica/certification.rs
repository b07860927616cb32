//! Acknowledgements that bundles are stored, and the certificates formed from them.
//!
//! Bundles are proposed only once n-f replicas have signed that they keep them, so that no vote waits for a bundle; see
//! `docs/adr/045-certified-bundles.md`.

use super::{Event, Pending, Protocol, Replica};
use crate::data::batches::{Batch, Cover};
use crate::data::kept::{MAX_RELIANCE_BLOCKS, RELIANCE_BLOCKS};
use crate::seam::{Action, Drop, Envelope, RecordId, To};
use quorate_types::{Attachment, Bundle, Certificate, Domain, Height, ReplicaId, Time, Vote};
use std::sync::Arc;
use std::time::Duration;

/// Interval between two sweeps for batches and uncertified bundles that are no longer needed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

impl<P: Protocol> Replica<P> {
    fn certifies(&self) -> bool {
        self.parts.config.dissemination.is_certified()
    }

    /// Closes batches of disseminated bundles, resends those that lack acknowledgements, and drops those that are no
    /// longer needed.
    pub(super) fn pace_batches(&mut self, now: Time) {
        if !self.certifies() {
            return;
        }
        self.parts.store.want_absent(now);
        if self.swept + SWEEP_INTERVAL <= now {
            self.swept = now;
            for spreader in self.parts.store.sweep(now) {
                self.drop_message(spreader, Drop::BundlesMissing);
            }
        }
        if self.parts.spreading.next_act().is_none_or(|due| due > now) {
            return;
        }
        let pool = &self.parts.store.pool;
        for overdue in self.parts.spreading.take_overdue(now, |bundle| pool.is_uncertified(bundle)) {
            let again: Vec<Bundle> =
                overdue.bundles.iter().filter_map(|bundle| self.parts.store.pool.get(bundle).cloned()).collect();
            for peer in overdue.missed_by {
                self.spread(To::One(peer), again.clone());
            }
        }
        let pool = &self.parts.store.pool;
        let until = Height(self.parts.store.committed().0 + RELIANCE_BLOCKS);
        let Some(batch) = self.parts.spreading.close(now, until, |bundle| pool.is_uncertified(bundle)) else { return };
        self.parts.store.list(now, batch.clone());
        self.send_unsigned(To::Others, Envelope::Batch(batch.clone()));
        self.acknowledge(self.parts.me, &batch);
        self.fetch_armed = None;
    }

    /// Signs that this replica keeps the bundles of a batch, once they are in its journal. Returns false if the batch's
    /// sender has used up its space here.
    fn acknowledge(&mut self, to: ReplicaId, batch: &Batch) -> bool {
        let Some(new) = self.parts.store.keep(batch) else { return false };
        self.out.persist_kept(batch.spreader(), batch.until(), new);
        let vote = self.parts.safety.stored(batch).to_vote(self.parts.me);
        // The journal may already hold some of them until a later height.
        let after = Some(RecordId(self.out.records)).filter(|_| !bug!(AnyCertificate));
        self.out.actions.push(Action::Send { to: To::One(to), message: Envelope::Stored(vote), after, sign: true });
        true
    }

    pub(super) fn send_unsigned(&mut self, to: To, message: Envelope<P::Message>) {
        self.out.actions.push(Action::Send { to, message, after: None, sign: false });
    }

    /// Acknowledges a peer's batch once all its bundles are stored. If the transport delivered the batch before its
    /// bundles, waits a while for them; after that the peer resends them. A signature costs more than the batch itself,
    /// so a peer cannot obtain many signatures for one bundle.
    pub(super) fn on_batch(&mut self, now: Time, from: ReplicaId, batch: Arc<Batch>) {
        if !self.certifies() {
            return self.drop_message(from, Drop::Unasked);
        }
        if batch.spreader() != from || batch.entries().is_empty() {
            return self.drop_message(from, Drop::Malformed);
        }
        let store = &mut self.parts.store;
        if batch.until().0 > store.committed().0.saturating_add(MAX_RELIANCE_BLOCKS) {
            return self.drop_message(from, Drop::TooFarAhead);
        }
        if store.batches().is_listed_again(now, &batch) {
            return self.drop_message(from, Drop::Repeated);
        }
        let mut is_here = batch.entries().iter().map(|entry| store.has_listed(entry));
        match is_here.try_fold(true, |all, held| Some(all && held?)) {
            Some(false) if !bug!(StoredUnseen) => {
                for _ in 0..store.early.add(now, batch.clone()) {
                    self.drop_message(from, Drop::BundlesMissing);
                }
                self.check_early_certificates(from, &batch);
            }
            None if !bug!(StoredUnseen) => self.drop_message(from, Drop::BundlesMissing),
            _ => self.accept_batch(now, from, batch),
        }
    }

    /// Acknowledges those batches of a peer that waited for their bundles.
    pub(super) fn accept_awaited(&mut self, from: ReplicaId) {
        for (came, batch) in self.parts.store.take_awaited(from) {
            let store = &self.parts.store;
            if store.batches().is_listed_again(came, &batch) {
                self.drop_message(from, Drop::Repeated);
            } else if !batch.entries().iter().all(|entry| store.has_listed(entry) == Some(true)) {
                self.drop_message(from, Drop::BundlesMissing);
            } else {
                self.accept_batch(came, from, batch);
            }
        }
    }

    /// Acknowledges a batch that arrived at `came` and whose bundles are stored.
    fn accept_batch(&mut self, came: Time, from: ReplicaId, batch: Arc<Batch>) {
        if !self.parts.store.list(came, batch.clone()) || !self.acknowledge(from, &batch) {
            return self.drop_message(from, Drop::PoolFull);
        }
        self.check_early_certificates(from, &batch);
    }

    /// Requests verification of the certificates that arrived before this batch of a peer.
    fn check_early_certificates(&mut self, from: ReplicaId, batch: &Arc<Batch>) {
        for certificate in self.parts.store.early.take_certificates(batch) {
            self.check_covers(from, vec![Cover { batch: batch.clone(), certificate }]);
        }
    }

    /// Counts a peer's acknowledgement of a batch of this replica.
    pub(super) fn on_stored(&mut self, now: Time, from: ReplicaId, vote: Vote) {
        if vote.voter != from {
            return self.drop_message(from, Drop::NotTheSender);
        }
        if vote.attachment != Attachment::None || vote.subject.domain != Domain::Stored {
            return self.drop_message(from, Drop::Malformed);
        }
        match self.parts.spreading.awaits(&vote.subject, from) {
            true => self.count(now, vote),
            false => self.drop_message(from, Drop::Late),
        }
    }

    /// Announces that a quorum holds a batch of this replica.
    pub(super) fn on_quorum_stored(&mut self, now: Time, certificate: Certificate) {
        let Some(batch) = self.parts.spreading.take_certified(&certificate.subject) else { return };
        self.send_unsigned(To::Others, Envelope::Certified(Box::new(certificate.clone())));
        self.take_covers(now, vec![Cover { batch, certificate }]);
    }

    /// Requests verification of the certificate of a peer's batch. A certificate that overtakes its batch waits for it.
    pub(super) fn on_certified(&mut self, now: Time, from: ReplicaId, certificate: Certificate) {
        let (store, digest) = (&mut self.parts.store, &certificate.subject.digest);
        let batch = store.batches().uncertified(digest).filter(|batch| batch.spreader() == from);
        if let Some(batch) = batch.or_else(|| store.early.get(from, digest)).cloned() {
            return self.check_covers(from, vec![Cover { batch, certificate }]);
        }
        let may_be_early = certificate.subject.domain == Domain::Stored && !store.batches().contains(digest);
        if !self.certifies() || !may_be_early {
            return self.drop_message(from, Drop::Unasked);
        }
        for _ in 0..self.parts.store.early.add_certificate(now, from, certificate) {
            self.drop_message(from, Drop::Unasked);
        }
    }

    /// Requests verification of the certified batches that a peer shows, unless they contain nothing new.
    pub(super) fn on_covers(&mut self, from: ReplicaId, mut covers: Vec<Cover>) {
        if !self.certifies() {
            return self.drop_message(from, Drop::Unasked);
        }
        let n = self.parts.quorum.replicas();
        let fits = |cover: &Cover| cover.is_well_formed() && cover.batch.spreader().index() < n;
        if !covers.iter().all(fits) {
            return self.drop_message(from, Drop::Malformed);
        }
        let store = &self.parts.store;
        covers.retain(|cover| {
            let is_new = |bundle| !store.pool.contains(bundle) || store.pool.is_uncertified(bundle);
            !store.batches().has_enough(cover) && cover.batch.entries().iter().any(|entry| is_new(&entry.bundle))
        });
        self.check_covers(from, covers);
    }

    fn check_covers(&mut self, from: ReplicaId, covers: Vec<Cover>) {
        if covers.is_empty() {
            return;
        }
        if !covers.iter().all(Cover::is_well_formed) {
            return self.drop_message(from, Drop::Malformed);
        }
        if self.checks[from.index()] >= super::MAX_CHECKS_PER_PEER {
            return self.drop_message(from, Drop::Overload);
        }
        self.checks[from.index()] += 1;
        let certificates = covers.iter().map(|cover| cover.certificate.clone()).collect();
        let job = self.jobs.ask(Pending::Covers { from, covers });
        self.out.actions.push(Action::Verify { job, certificates, votes: Vec::new() });
    }

    /// Handles certified batches: their bundles may now be proposed, and blocks that name them need not wait for them.
    pub(super) fn take_covers(&mut self, now: Time, covers: Vec<Cover>) {
        let mut news = 0;
        for cover in covers {
            let parts = &mut self.parts;
            news += parts.store.cover(now, cover, &parts.leaders, &mut self.out.whole);
        }
        if news > 0 {
            self.tell(now, Event::Work(news));
        }
    }
}
