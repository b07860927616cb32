//! Signatures that bundles of final blocks are missing, and the void bundles that result from them.

use super::{Pending, Protocol, Replica};
use crate::data::answers::Question;
use crate::recovery::absence::{MAX_SIGNED, absence};
use crate::recovery::journal::Record;
use crate::seam::{Action, Drop, Envelope, RecordId, To};
use quorate_types::{Attachment, Certificate, Domain, Height, ReplicaId, Subject, Time, Vote};

impl<P: Protocol> Replica<P> {
    /// Signs that bundles are missing if execution has waited too long for them, and repeats these signatures.
    pub(super) fn pace_absence(&mut self, now: Time) {
        let store = &mut self.parts.store;
        let stuck = store.stuck_block().cloned();
        if stuck.is_none() && store.absence.next_act().is_none() {
            return;
        }
        let before = store.absence.next_act();
        let is_due = store.absence.is_due(now, stuck.as_ref().map(|block| block.digest()));
        if store.absence.next_act() != before {
            self.fetch_armed = None;
        }
        let Some(block) = stuck.filter(|_| is_due) else { return };
        for (position, bundle) in self.parts.store.absent_of(&block, MAX_SIGNED) {
            let ballot = self.parts.safety.absent(absence(&block, position));
            if self.parts.store.absence.sign(ballot.subject(), bundle) {
                self.turn(now).cast_in_envelope(&ballot, To::All, Envelope::Absent);
            } else {
                self.out.recast_envelope(To::All, Envelope::Absent(ballot.to_vote(self.parts.me)));
            }
        }
    }

    /// Counts a replica's signature that it lacks a bundle, and sends that replica the bundle if possible.
    pub(super) fn on_absent(&mut self, now: Time, from: ReplicaId, vote: Vote) {
        if vote.voter != from {
            return self.drop_message(from, Drop::NotTheSender);
        }
        let certified = self.parts.config.dissemination.is_certified();
        if !certified || vote.attachment != Attachment::None || vote.subject.domain != Domain::Absent {
            return self.drop_message(from, Drop::Malformed);
        }
        if from != self.parts.me && self.answer_absent(now, from, &vote.subject) {
            return;
        }
        match self.parts.store.lacks(&vote.subject) {
            true => self.count(now, vote),
            false => self.drop_message(from, Drop::Late),
        }
    }

    /// Sends a replica that lacks a bundle the bundle itself, the certificate that it is void, or a later state.
    /// Returns whether this replica has any of these.
    fn answer_absent(&mut self, now: Time, from: ReplicaId, subject: &Subject) -> bool {
        let store = &self.parts.store;
        let void = store.absence.certificate(subject).cloned();
        let bundle = store.bundle_at(subject).cloned();
        let is_past = subject.height <= store.committed();
        if void.is_none() && bundle.is_none() && !is_past {
            return false;
        }
        if !self.admits(now, from, Question::Absent(*subject)) {
            return true;
        }
        if let Some(certificate) = void {
            self.answer(from, certificate.proof.len(), Envelope::Void(Box::new(certificate)));
        } else if let Some(bundle) = bundle {
            // The journal must remember that this replica has shown the bundle.
            if self.parts.store.pool.came_late(&bundle.digest()) && !is_past {
                self.out.persist_bundles([bundle.clone()]);
            }
            self.parts.answers.charge(from, bundle.body().len());
            let (to, after) = (To::One(from), Some(RecordId(self.out.records)));
            let message = Envelope::Bundles(vec![bundle]);
            self.out.actions.push(Action::Send { to, message, after, sign: false });
        } else if self.turn(now).offer_state(from, Height(subject.height.0 - 1)) {
            self.parts.answers.charge(from, 0);
        }
        true
    }

    /// Sends a peer the absence certificates for blocks that it is about to get, or for bundles that it asks for.
    pub(super) fn show_voids(&mut self, to: ReplicaId, certificates: Vec<Certificate>) {
        for certificate in certificates {
            self.answer(to, certificate.proof.len(), Envelope::Void(Box::new(certificate)));
        }
    }

    /// Requests verification of the certificate that a bundle is absent.
    pub(super) fn on_void(&mut self, from: ReplicaId, certificate: Certificate) {
        let subject = certificate.subject;
        if subject.domain != Domain::Absent || !certificate.attachments.is_empty() {
            return self.drop_message(from, Drop::Malformed);
        }
        let store = &self.parts.store;
        if !self.parts.config.dissemination.is_certified() || subject.height <= store.committed() {
            return self.drop_message(from, Drop::Late);
        }
        if store.absence.certificate(&subject).is_some() || !store.absence.has_room() {
            return self.drop_message(from, Drop::Repeated);
        }
        if self.checks[from.index()] >= super::MAX_CHECKS_PER_PEER {
            return self.drop_message(from, Drop::Overload);
        }
        self.checks[from.index()] += 1;
        let certificates = vec![certificate.clone()];
        let job = self.jobs.ask(Pending::Void { from, certificate: Box::new(certificate) });
        self.out.actions.push(Action::Verify { job, certificates, votes: Vec::new() });
    }

    /// Treats a bundle as void from now on, because a quorum has signed that it is absent. The certificate is journaled
    /// before the commit of the block.
    pub(super) fn take_void(&mut self, certificate: Certificate) -> bool {
        let store = &mut self.parts.store;
        if certificate.subject.height <= store.committed() || !store.absence.add(certificate.clone()) {
            return false;
        }
        self.out.persist(Record::Void(Box::new(certificate)));
        true
    }

    /// Announces that a quorum has signed that a bundle is absent.
    pub(super) fn on_quorum_absent(&mut self, certificate: Certificate) {
        if self.take_void(certificate.clone()) {
            self.send_unsigned(To::Others, Envelope::Void(Box::new(certificate)));
        }
    }
}
