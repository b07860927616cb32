//! Recovery into a view after a restart.
//!
//! The journal holds every certificate on which a statement of this replica was based: the highest certificate, and the
//! certificate that began its view, which may be of timeouts. The replica therefore restarts in a view no lower than
//! any in which it has voted, and knows at least what it knew then. It repeats its last statements for replicas that
//! were down at the same time.

use super::{ViewEngine, Views};
use crate::protocols::parts::Parts;
use crate::protocols::protocol::Recalled;
use crate::protocols::turn::Turn;
use crate::protocols::views::message::{FromView, Timeout, ViewMessage};
use crate::protocols::views::{Family, builds_on, ends_view, shows_claimed_certificate, votes_to};
use crate::recovery::journal::{Record, Standing};
use crate::seam::{Mark, To};
use quorate_types::{Attachment, Block, Certificate, Domain, Encoder, Subject, View, Vote, Wire};
use std::sync::Arc;

/// State gathered from the journal.
pub(super) struct Recall {
    /// Highest certificate that a block may extend.
    high: Certificate,
    /// Certificate that began the last view, or `None` if genesis did.
    begun: Option<Certificate>,
    /// Timeout message of the last view that timed out, as cast.
    timeout: Option<Arc<Timeout>>,
    /// Recalled timeout message that was not sent, unless the journal contains its promise further on.
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
        // A block may hold the same certificate without its proof.
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
                // The certificate in a block that got this replica's vote is not journaled twice; see `Views::keep`.
                let block = parts.store.tree.get(&promise.subject.digest);
                let shows =
                    |block: &&Arc<Block>| !block.is_optimistic() && block.justify.view() >= self.recall.high.view();
                if let Some(block) = block.filter(shows) {
                    self.recall.certificate::<F>(block.justify.clone());
                }
            }
            Recalled::Message(message) => {
                if let Ok(ViewMessage::Timeout(timeout)) = message.into_view() {
                    self.recall.unsaid = Some(timeout);
                }
            }
            // These protocols show a replica's view by certificates only.
            Recalled::Standing(_) | Recalled::Claims(_) => {}
        }
    }

    /// Enters the first view, or the view in which the journal ends.
    pub(super) fn start(&mut self, turn: &mut Turn<'_, F::Message>) {
        let genesis = Certificate::genesis(&turn.parts.epoch);
        let Recall { high, begun, timeout, .. } = std::mem::replace(&mut self.recall, Recall::new(&genesis));
        let me = turn.parts.me;
        self.views.kept_high = high.subject;
        self.views.kept_evidence = begun.as_ref().map(|begun| begun.subject);
        if high.view() > View(0) {
            let consequences = self.family.on_certificate(&high, self.views.known(turn.parts));
            self.views.carry_out(consequences, me, turn);
        }
        match begun {
            Some(begun) => self.learn(&begun, me, turn),
            None => {
                let evidence = self.views.evidence.take();
                self.views.enter(View(1), evidence, turn);
            }
        }
        let forced = turn.parts.safety.spoke_in();
        let forgets = bug!(RecoveryForgetsTimeouts);
        if turn.parts.leaders.is_scripted() && forced > turn.parts.pacemaker.view() && !forgets {
            self.views.enter(forced, None, turn);
        }
        self.views.say_again(timeout, turn);
    }
}

impl<F: Family> Views<F> {
    /// Repeats this replica's last statements in the current view, if there are any.
    fn say_again(&mut self, timeout: Option<Arc<Timeout>>, turn: &mut Turn<'_, F::Message>) {
        let view = turn.parts.pacemaker.view();
        if let Some(timeout) = timeout.filter(|timeout| timeout.vote.subject.view == view) {
            turn.parts.pacemaker.on_timeout();
            self.given_up = Some(timeout);
            return self.give_up(turn);
        }
        let said = |domain: &Domain| turn.parts.safety.last(*domain).map(|promise| promise.subject);
        let kinds = [
            Domain::OptimisticProposal,
            Domain::Proposal,
            Domain::Vote,
            Domain::Prepare,
            Domain::PreCommit,
            Domain::Commit,
        ];
        let current = |subject: &Subject| {
            let ahead = subject.domain == Domain::OptimisticProposal && subject.view == view.next();
            subject.view == view || ahead
        };
        let last: Vec<Subject> = kinds.iter().filter_map(said).filter(current).collect();
        for subject in last {
            let Some(block) = turn.parts.store.tree.get(&subject.digest).cloned() else { continue };
            let vote = unsigned(subject, turn.parts);
            match subject.domain {
                Domain::Proposal | Domain::OptimisticProposal => {
                    turn.show_covers(To::Others, &block);
                    let proposal = self.proposal(block, vote, turn.parts);
                    turn.out.recast(To::All, ViewMessage::Proposal(Arc::new(proposal)).into());
                }
                _ => turn.out.recast(votes_to::<F>(&block, turn.parts), ViewMessage::Vote(vote).into()),
            }
        }
    }

    /// Resumes voting after amnesia, in a view in which this replica cannot have voted before. It knows the highest
    /// certificate of the replicas that left the previous view, since nothing else moves it here, and locks on it as if
    /// it had voted. The certificates go to the journal, so that after a restart the replica returns to this view and
    /// votes there.
    pub(super) fn take_part_again(&mut self, view: View, turn: &mut Turn<'_, F::Message>) {
        if !turn.parts.safety.is_away() || view <= turn.parts.safety.abstains() {
            return;
        }
        turn.parts.safety.come_back(self.high.subject);
        self.keep(None, turn);
        turn.out.mark(Mark::TakesPart { view });
    }

    /// Returns the protocol's own records at the start of a truncated journal, besides those that all protocols have.
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

/// Returns an upper bound on the views in which any replica can have voted. A peer that shows that view v has begun may
/// know no more than that. A replica enters a view only through a quorum of the previous view, and that quorum includes
/// an honest replica among those asked. So if v is the highest view that the answers show, no replica has voted beyond
/// v + 1.
pub(super) fn spoken_up_to<F: Family>(standing: &Standing) -> Option<View> {
    let known = |certificate: &Certificate| {
        builds_on::<F>(certificate) || certificate.subject.domain == Domain::Timeout || ends_view::<F>(certificate)
    };
    let last = View(u64::MAX - 2);
    let built_on = standing.certificates.iter().filter(|certificate| builds_on::<F>(certificate));
    let high = built_on.map(Certificate::view).max().unwrap_or_default();
    let complete = |certificate: &Certificate| shows_claimed_certificate::<F>(high, Some(certificate));
    let sound = |certificate: &Certificate| known(certificate) && certificate.view() < last && complete(certificate);
    let fits = standing.votes.is_empty() && standing.certificates.iter().all(sound);
    let begun = standing.certificates.iter().filter(|certificate| ends_view::<F>(certificate));
    let ended = begun.map(Certificate::view).max().unwrap_or_default();
    fits.then(|| if bug!(BoundTooLow) { ended } else { ended.next().next() })
}

fn unsigned(subject: Subject, parts: &Parts) -> Vote {
    Vote { subject, attachment: Attachment::None, voter: parts.me, signature: bytes::Bytes::new() }
}
