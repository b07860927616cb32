//! The phases after prepare, and the effect of their certificates.

use super::message::BasicMessage;
use super::rules;
use crate::data::block_tree::BlockTree;
use crate::protocols::facts::{Bond, Facts, Shape};
use crate::protocols::outbox::Outbox;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::Admission;
use crate::protocols::views::message::ViewMessage;
use crate::protocols::views::{Candidate, Family, Refusal, Views};
use crate::seam::{Drop, To};
use quorate_types::{Block, Certificate, Domain, ReplicaId, Subject, Time, View};

/// Protocol family of basic HotStuff.
pub struct BasicHotStuff {
    /// Subject of the highest commitQC.
    decided: Subject,
}

impl BasicHotStuff {
    /// Returns the view of the highest known certificate of a phase.
    fn reached(&self, phase: Domain, views: &Views<Self>, parts: &Parts) -> Option<View> {
        match phase {
            Domain::Prepare => Some(views.high().view()),
            Domain::PreCommit => Some(parts.safety.lock().view),
            Domain::Commit => Some(self.decided.view),
            _ => None,
        }
    }

    /// Commits, and votes in the phases of the current view, as far as the known certificates allow and the block is
    /// here.
    fn proceed(&mut self, views: &mut Views<Self>, parts: &mut Parts, out: &mut Outbox<BasicMessage>) {
        if let Some(block) = parts.store.tree.get(&self.decided.digest).cloned() {
            views.commit(&block, parts, out); // algorithm 2, line 35
        }
        let view = parts.pacemaker.view();
        let (high, lock) = (views.high().subject, parts.safety.lock());
        // The highest certificate may come from a later phase and stand in for a prepareQC; its block has certainly
        // been prepared.
        for (subject, phase) in [(high, Domain::Prepare), (lock, Domain::PreCommit)] {
            let Some(block) = parts.store.tree.get(&subject.digest).filter(|_| subject.view == view).cloned() else {
                continue;
            };
            let ballot = rules::answer(phase).and_then(|next| parts.safety.vote_in(next, &block));
            if let Some(ballot) = ballot {
                views.keep(Some(&block.digest()), parts, out);
                out.cast(parts, &ballot, To::One(block.author), |vote| ViewMessage::Vote(vote).into());
            }
        }
    }
}

impl Family for BasicHotStuff {
    type Message = BasicMessage;

    const FACTS: Facts = Facts {
        name: "basic-hotstuff",
        title: "Basic HotStuff",
        essence: "Each view orders one block in phases that its leader drives. n-f prepare votes are the prepareQC, n-f pre-commit votes for \
                  that the precommitQC, which locks, n-f commit votes the commitQC, which decides and ends the view. The next leader \
                  builds on the highest prepareQC.",
        shape: Shape::Phases,
        bound_by: Bond::LockedBlock,
        timeouts_carry_certificates: false,
    };
    const VOTES: Domain = Domain::Prepare;
    const ENDS_VIEW: Domain = Domain::Commit;
    const BUILDS_ON: &'static [Domain] = &[Domain::Prepare, Domain::PreCommit, Domain::Commit];
    const NEXT_LEADER_COLLECTS: bool = false;

    fn new(genesis: &Certificate) -> Self {
        BasicHotStuff { decided: genesis.subject }
    }

    fn extends<'a>(high: &'a Certificate, _evidence: Option<&'a Certificate>) -> &'a Certificate {
        high
    }

    fn basis(view: View, justify: &Certificate, evidence: Option<&Certificate>) -> Subject {
        match evidence {
            _ if rules::finishes_view_before(view, justify) => justify.subject,
            None => justify.subject,
            Some(evidence) if evidence.subject.domain == Domain::Timeout => rules::basis_after_timeout(view, justify),
            Some(evidence) => evidence.subject,
        }
    }

    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
        rules::safe_node(candidate, tree)
    }

    fn admit_vote(&self, views: &Views<Self>, parts: &Parts, subject: &Subject) -> Result<(), Drop> {
        match self.reached(subject.domain, views, parts) {
            None => Err(Drop::Malformed),
            Some(reached) if subject.view <= reached => Err(Drop::Late),
            Some(_) if subject.view.0 < parts.pacemaker.view().0.saturating_sub(1) => Err(Drop::Stale),
            Some(_) => Ok(()),
        }
    }

    fn admit(&self, views: &Views<Self>, parts: &Parts, _from: ReplicaId, message: &BasicMessage) -> Admission {
        let BasicMessage::Phase(certificate) = message else { unreachable!("the engine admits what all families say") };
        let subject = certificate.subject;
        match self.reached(subject.domain, views, parts) {
            None => Admission::Drop(Drop::Malformed),
            Some(reached) if subject.view <= reached => Admission::Drop(Drop::Stale),
            Some(_) => Admission::Check(vec![(**certificate).clone()]),
        }
    }

    fn certificates(message: BasicMessage) -> Vec<Certificate> {
        match message {
            BasicMessage::Phase(certificate) => vec![*certificate],
            BasicMessage::View(_) => Vec::new(),
        }
    }

    /// Sends PRE-COMMIT, COMMIT or DECIDE (algorithm 2, lines 14, 22 and 30).
    fn formed(&mut self, certificate: &Certificate, out: &mut Outbox<BasicMessage>) {
        if certificate.subject.domain != Domain::Timeout {
            out.send(To::Others, BasicMessage::Phase(Box::new(certificate.clone())));
        }
    }

    fn learn(
        &mut self,
        now: Time,
        certificate: &Certificate,
        from: ReplicaId,
        views: &mut Views<Self>,
        parts: &mut Parts,
        out: &mut Outbox<BasicMessage>,
    ) {
        let subject = certificate.subject;
        if !Self::BUILDS_ON.contains(&subject.domain) {
            return;
        }
        if subject.view > views.high().view() {
            views.raise(certificate.clone());
        } else if subject.view == views.high().view() && subject.domain == Self::ENDS_VIEW {
            views.finish(certificate.clone());
        }
        let prepared = Subject { domain: Domain::PreCommit, ..subject };
        let early = bug!(TwoPhases).then_some(prepared);
        if let Some(lock) = rules::locks(certificate).or(early) {
            parts.safety.lock_on(lock);
        }
        if subject.domain == Domain::Commit && subject.view > self.decided.view {
            self.decided = subject;
        }
        parts.store.want_block(now, subject.digest, subject.height, from);
        self.proceed(views, parts, out);
    }

    fn whole(&mut self, _block: &Block, views: &mut Views<Self>, parts: &mut Parts, out: &mut Outbox<BasicMessage>) {
        self.proceed(views, parts, out);
    }
}
