//! The chained family: a certificate of votes ends its view, and each block carries its parent's certificate. [`Rules`]
//! decide when to vote, lock and commit.

use super::message::ChainedMessage;
use super::rules::{Candidate, Refusal, Rules};
use crate::data::block_tree::BlockTree;
use crate::protocols::facts::Facts;
use crate::protocols::outbox::Outbox;
use crate::protocols::parts::Parts;
use crate::protocols::views::{Family, ViewEngine, Views};
use crate::seam::Drop;
use quorate_types::{Block, Certificate, Digest, Domain, ReplicaId, Subject, Time, View};
use std::marker::PhantomData;

/// Engine of a chained protocol, given its rules.
pub type ChainedEngine<R> = ViewEngine<Chained<R>>;

/// Family of the protocols that follow chained rules.
pub struct Chained<R> {
    rules: PhantomData<R>,
}

impl<R: Rules> Chained<R> {
    /// Locks and commits according to the rules, once a certified block is in the tree.
    fn certified(
        &mut self,
        digest: &Digest,
        views: &mut Views<Self>,
        parts: &mut Parts,
        out: &mut Outbox<ChainedMessage>,
    ) {
        let Some(block) = parts.store.tree.get(digest).cloned() else { return };
        if let Some(lock) = R::lock_after(&block, &parts.store.tree) {
            parts.safety.lock_on(lock);
        }
        let Some(committed) = R::commits(&block, &parts.store.tree) else { return };
        if views.commit(&committed, parts, out) {
            views.to_announce();
        }
    }
}

impl<R: Rules> Family for Chained<R> {
    type Message = ChainedMessage;

    const FACTS: Facts = R::FACTS;
    const VOTES: Domain = Domain::Vote;
    const ENDS_VIEW: Domain = Domain::Vote;
    const BUILDS_ON: &'static [Domain] = &[Domain::Vote];
    const NEXT_LEADER_COLLECTS: bool = true;

    fn new(_genesis: &Certificate) -> Self {
        Chained { rules: PhantomData }
    }

    fn extends<'a>(high: &'a Certificate, evidence: Option<&'a Certificate>) -> &'a Certificate {
        R::extends(high, evidence)
    }

    fn awaits_higher(view: View, high: &Certificate) -> bool {
        R::awaits_higher(view, high)
    }

    /// Returns the votes of the previous view or, after a timeout, the certificate that the leader extends.
    fn basis(_view: View, justify: &Certificate, evidence: Option<&Certificate>) -> Subject {
        let votes = evidence.filter(|evidence| evidence.subject.domain == Domain::Vote);
        votes.map_or(justify.subject, |votes| votes.subject)
    }

    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
        R::may_vote(candidate, tree)
    }

    fn admit_vote(&self, views: &Views<Self>, _parts: &Parts, subject: &Subject) -> Result<(), Drop> {
        match subject.domain {
            Domain::Vote if subject.view > views.high().view() => Ok(()),
            Domain::Vote => Err(Drop::Late),
            _ => Err(Drop::Malformed),
        }
    }

    fn learn(
        &mut self,
        now: Time,
        certificate: &Certificate,
        from: ReplicaId,
        views: &mut Views<Self>,
        parts: &mut Parts,
        out: &mut Outbox<ChainedMessage>,
    ) {
        let subject = certificate.subject;
        if subject.domain != Domain::Vote || subject.view <= views.high().view() {
            return;
        }
        views.raise(certificate.clone());
        match parts.store.tree.contains(&subject.digest) {
            true => self.certified(&subject.digest, views, parts, out),
            false => parts.store.want_block(now, subject.digest, subject.height, from),
        }
    }

    fn whole(&mut self, block: &Block, views: &mut Views<Self>, parts: &mut Parts, out: &mut Outbox<ChainedMessage>) {
        // If views failed in between, its certificate may have committed a block that the highest certificate does not.
        self.certified(&block.parent(), views, parts, out);
        if block.digest() == views.high().subject.digest {
            self.certified(&block.digest(), views, parts, out);
        }
    }
}
