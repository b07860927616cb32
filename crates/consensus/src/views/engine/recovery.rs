//! Coming back into a view.
//!
//! The journal has every certificate on which this replica stood when it said something: the highest, and the one that began its
//! view, which may be one of timeouts. It therefore comes back in a view no lower than any it has spoken in, and knows as much as
//! it knew when it spoke. What it said last it says again, for those who were down too.

use super::{ViewEngine, Views};
use crate::journal::{Record, Standing};
use crate::replica::{Outbox, Parts, Recalled};
use crate::seam::{Mark, To};
use crate::views::message::{FromView, Timeout, ViewMessage};
use crate::views::{Family, builds_on, ends_view, shows_what_it_tells, votes_to};
use quorate_types::{Attachment, Block, Certificate, Digest, Domain, Encoder, Subject, Time, View, Vote, Wire};
use std::sync::Arc;

/// What of the journal counts.
pub(super) struct Recall {
    /// The highest certificate that one may build on.
    high: Certificate,
    /// The one that began the last view, unless that is genesis.
    begun: Option<Certificate>,
    /// The last view given up, as that was said.
    timeout: Option<Arc<Timeout>>,
    /// The same, as long as the promise does not follow without which it was not said.
    unsaid: Option<Arc<Timeout>>,
}

impl Recall {
    pub fn new(genesis: &Certificate) -> Recall {
        Recall { high: genesis.clone(), begun: None, timeout: None, unsaid: None }
    }

    fn certificate<F: Family>(&mut self, certificate: Certificate) {
        if let Some(attached) = certificate.highest_attached_certificate().cloned() {
            self.certificate::<F>(attached);
        }
        let begun = self.begun.as_ref().map_or(View(0), Certificate::view);
        if ends_view::<F>(&certificate) && certificate.view() > begun {
            self.begun = Some(certificate.clone());
        }
        // The same in a block may be without its proof.
        let other = certificate.subject != self.high.subject;
        let finishes = other && certificate.subject.domain == F::ENDS_VIEW && certificate.view() == self.high.view();
        if builds_on::<F>(&certificate) && (finishes || certificate.view() > self.high.view()) {
            self.high = certificate;
        }
    }
}

impl<F: Family> ViewEngine<F> {
    pub(super) fn take_recalled(&mut self, recalled: Recalled<'_, F::Message>, parts: &Parts) {
        match recalled {
            Recalled::Certificate(certificate)
                if certificate.subject.domain == Domain::Timeout && bug!(RecoveryForgetsTimeouts) => {}
            Recalled::Certificate(certificate) => self.recall.certificate::<F>(certificate),
            Recalled::Promise(promise) => {
                let said = |timeout: &mut Arc<Timeout>| timeout.vote.subject == promise.subject;
                if let Some(timeout) = self.recall.unsaid.take_if(said) {
                    self.recall.timeout = Some(timeout);
                }
                // The certificate in a block that was voted for is not kept a second time; see `Views::keep`.
                let block = parts.store.tree.get(&promise.subject.digest);
                if let Some(block) = block.filter(|block| block.justify.view() >= self.recall.high.view()) {
                    self.recall.certificate::<F>(block.justify.clone());
                }
            }
            Recalled::Message(message) => {
                if let Ok(ViewMessage::Timeout(timeout)) = message.into_view() {
                    self.recall.unsaid = Some(timeout);
                }
            }
            // Here certificates alone show where a replica stands.
            Recalled::Standing(_) => {}
        }
    }

    /// Enters the first view, or the one that the journal ends in.
    pub(super) fn start(&mut self, now: Time, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        let genesis = Certificate::genesis(&parts.cluster);
        let Recall { high, begun, timeout, .. } = std::mem::replace(&mut self.recall, Recall::new(&genesis));
        let me = parts.me;
        self.views.kept_high = high.subject;
        self.views.kept_evidence = begun.as_ref().map(|begun| begun.subject);
        if high.view() > View(0) {
            self.family.learn(now, &high, me, &mut self.views, parts, out);
        }
        match begun {
            Some(begun) => self.learn(now, &begun, me, parts, out),
            None => {
                let evidence = self.views.evidence.take();
                self.views.enter(now, View(1), evidence, parts, out);
            }
        }
        let forced = parts.safety.spoke_in();
        let forgets = bug!(RecoveryForgetsTimeouts);
        if parts.leaders.is_scripted() && forced > parts.pacemaker.view() && !forgets {
            self.views.enter(now, forced, None, parts, out);
        }
        self.views.say_again(timeout, parts, out);
    }
}

impl<F: Family> Views<F> {
    /// Has the journal remember what this replica stands on, before it says anything. The certificate in `block`, which it is about to
    /// vote for, need not be kept twice. It is recalled with the vote, which may be lost in a crash: what begins the view is not kept
    /// without the certificate of which it tells.
    pub fn keep(&mut self, block: Option<&Digest>, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        let evidence = self.evidence.as_ref().filter(|evidence| self.kept_evidence != Some(evidence.subject));
        if let Some(digest) = block {
            out.keep_block(parts, digest);
            let in_block = |block: &Arc<Block>| evidence.is_none() && block.justify == self.high;
            if parts.store.tree.get(digest).is_some_and(in_block) {
                self.kept_high = self.high.subject;
            }
        }
        if self.kept_high != self.high.subject {
            self.kept_high = self.high.subject;
            out.persist(Record::Certificate(Box::new(self.high.clone())));
        }
        if let Some(evidence) = evidence {
            self.kept_evidence = Some(evidence.subject);
            out.persist(Record::Certificate(Box::new(evidence.clone())));
        }
    }

    /// Says again what it said last in the current view, if it did.
    fn say_again(&mut self, timeout: Option<Arc<Timeout>>, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        let view = parts.pacemaker.view();
        if let Some(timeout) = timeout.filter(|timeout| timeout.vote.subject.view == view) {
            parts.pacemaker.gave_up();
            self.given_up = Some(timeout);
            return self.give_up(parts, out);
        }
        let said = |domain: &Domain| parts.safety.last(*domain).map(|promise| promise.subject);
        let kinds = [Domain::Proposal, Domain::Vote, Domain::Prepare, Domain::PreCommit, Domain::Commit];
        for subject in kinds.iter().filter_map(said).filter(|subject| subject.view == view) {
            let Some(block) = parts.store.tree.get(&subject.digest).cloned() else { continue };
            let vote = unsigned(subject, parts);
            match subject.domain {
                Domain::Proposal => {
                    let proposal = self.proposal(block, vote, parts);
                    out.recast(To::All, ViewMessage::Proposal(Arc::new(proposal)).into());
                }
                _ => out.recast(votes_to::<F>(&block, parts), ViewMessage::Vote(vote).into()),
            }
        }
    }

    /// A replica that has lost its memory takes part again in a view in which it cannot have spoken. It knows the highest certificate
    /// that those knew who left the view before, because nothing else moves it there, and is bound by that as if it had voted.
    pub(super) fn take_part_again(&mut self, view: View, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        if !parts.safety.is_away() || view <= parts.safety.abstains() {
            return;
        }
        parts.safety.come_back(self.high.subject);
        out.mark(Mark::TakesPart { view });
    }

    /// What a shortened journal begins with, besides what all protocols have in it.
    pub(super) fn summary(&self) -> Vec<Record> {
        let certificates = std::iter::once(&self.high).chain(&self.evidence);
        let kept = certificates.map(|certificate| Record::Certificate(Box::new(certificate.clone())));
        let timeout = self.given_up.iter().map(|timeout| {
            let mut out = Encoder::with_capacity(512);
            F::Message::from(ViewMessage::Timeout(timeout.clone())).encode(&mut out);
            Record::Message(out.finish())
        });
        kept.chain(timeout).collect()
    }

    pub(super) fn standing(&self) -> Standing {
        let certificates = std::iter::once(&self.high).chain(&self.evidence);
        Standing { certificates: certificates.cloned().collect(), votes: Vec::new() }
    }
}

/// Who shows that view v has begun may know no more than that; a replica that spoke in a view was let in by a quorum of the view
/// before, one of whom is honest and among those asked. So nobody asked has spoken beyond v + 1.
pub(super) fn spoken_up_to<F: Family>(standing: &Standing) -> Option<View> {
    let known = |certificate: &Certificate| {
        builds_on::<F>(certificate) || certificate.subject.domain == Domain::Timeout || ends_view::<F>(certificate)
    };
    let last = View(u64::MAX - 2);
    let built_on = standing.certificates.iter().filter(|certificate| builds_on::<F>(certificate));
    let high = built_on.map(Certificate::view).max().unwrap_or_default();
    let complete = |certificate: &Certificate| shows_what_it_tells::<F>(high, Some(certificate));
    let sound = |certificate: &Certificate| known(certificate) && certificate.view() < last && complete(certificate);
    let fits = standing.votes.is_empty() && standing.certificates.iter().all(sound);
    let begun = standing.certificates.iter().filter(|certificate| ends_view::<F>(certificate));
    let ended = begun.map(Certificate::view).max().unwrap_or_default();
    fits.then(|| ended.next().next())
}

fn unsigned(subject: Subject, parts: &Parts) -> Vote {
    Vote { subject, attachment: Attachment::None, voter: parts.me, signature: bytes::Bytes::new() }
}
