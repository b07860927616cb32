//! The phases after prepare, and the effect of their certificates.

use super::message::BasicMessage;
use super::rules;
use crate::data::block_tree::BlockTree;
use crate::facts::{Bond, Facts, Shape};
use crate::protocols::protocol::Admission;
use crate::protocols::views::{Candidate, Consequence, Family, Known, Refusal};
use crate::seam::Drop;
use quorate_types::{Block, Certificate, Domain, Subject, View};

/// Protocol family of basic HotStuff.
pub struct BasicHotStuff {
    /// Subject of the highest commitQC.
    decided: Subject,
}

impl BasicHotStuff {
    /// Returns the view of the highest known certificate of a phase.
    fn reached(&self, phase: Domain, known: Known<'_>) -> Option<View> {
        match phase {
            Domain::Prepare => Some(known.high.view()),
            Domain::PreCommit => Some(known.lock.view),
            Domain::Commit => Some(self.decided.view),
            _ => None,
        }
    }

    /// Commits, and votes in the phases of the current view, as far as the known certificates allow and the block is in
    /// the tree.
    fn proceed(&self, known: Known<'_>) -> impl Iterator<Item = Consequence> {
        let decided = known.tree.get(&self.decided.digest).cloned();
        let commit = decided.map(|block| Consequence::Commit { block, announce: false }); // algorithm 2, line 35
        // The highest certificate may belong to a later phase and replace a prepareQC; its block has certainly been
        // prepared.
        let phases = [(known.high.subject, Domain::Prepare), (known.lock, Domain::PreCommit)];
        let votes = phases.into_iter().filter(move |(subject, _)| subject.view == known.view);
        let votes = votes.filter_map(move |(subject, phase)| {
            let block = known.tree.get(&subject.digest)?.clone();
            Some(Consequence::Vote { phase: rules::answer(phase)?, block })
        });
        commit.into_iter().chain(votes)
    }
}

impl Family for BasicHotStuff {
    type Message = BasicMessage;

    const FACTS: Facts = Facts {
        name: "basic-hotstuff",
        title: "Basic HotStuff",
        essence: "Each view orders one block in phases that its leader drives. n-f prepare votes are the prepareQC, \
                  n-f pre-commit votes for that the precommitQC, which locks, n-f commit votes the commitQC, which \
                  decides and ends the view. The next leader builds on the highest prepareQC.",
        shape: Shape::Phases,
        bound_by: Bond::LockedBlock,
        timeouts_carry_certificates: false,
        optimistic_proposals: false,
        awaited_delays: 0,
        shows_votes: true,
        repairs_losses: true,
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

    fn admit_vote(&self, known: Known<'_>, subject: &Subject) -> Result<(), Drop> {
        match self.reached(subject.domain, known) {
            None => Err(Drop::Malformed),
            Some(reached) if subject.view <= reached => Err(Drop::Late),
            Some(_) if subject.view.0 < known.view.0.saturating_sub(1) => Err(Drop::Stale),
            Some(_) => Ok(()),
        }
    }

    fn admit(&self, known: Known<'_>, message: &BasicMessage) -> Admission {
        let BasicMessage::Phase(certificate) = message else {
            unreachable!("the engine screens the shared messages itself")
        };
        let subject = certificate.subject;
        match self.reached(subject.domain, known) {
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

    /// Returns PRE-COMMIT, COMMIT or DECIDE (algorithm 2, lines 14, 22 and 30).
    fn phase_message(certificate: &Certificate) -> Option<BasicMessage> {
        (certificate.subject.domain != Domain::Timeout).then(|| BasicMessage::Phase(Box::new(certificate.clone())))
    }

    fn on_certificate<'a>(&mut self, certificate: &'a Certificate, mut known: Known<'a>) -> Vec<Consequence> {
        let (subject, high) = (certificate.subject, known.high.view());
        let mut consequences = Vec::new();
        if !Self::BUILDS_ON.contains(&subject.domain) {
            return consequences;
        }
        if subject.view > high || (subject.view == high && subject.domain == Self::ENDS_VIEW) {
            consequences.push(Consequence::Raise(certificate.clone()));
            known.high = certificate;
        }
        if let Some(lock) = rules::locks(certificate).filter(|lock| lock.view > known.lock.view) {
            consequences.push(Consequence::Lock(lock));
            known.lock = lock;
        }
        if subject.domain == Domain::Commit && subject.view > self.decided.view {
            self.decided = subject;
        }
        consequences.push(Consequence::Fetch(subject));
        consequences.extend(self.proceed(known));
        consequences
    }

    fn on_complete_block(&self, _block: &Block, known: Known<'_>) -> Vec<Consequence> {
        self.proceed(known).collect()
    }
}
