//! The chained family: a certificate of votes ends its view, and each block carries its parent's certificate. [`Rules`]
//! decide when to vote, lock and commit.

use super::message::ChainedMessage;
use super::rules::{Candidate, Refusal, Rules};
use crate::data::block_tree::BlockTree;
use crate::facts::Facts;
use crate::protocols::views::{Consequence, Family, Known, ViewEngine};
use crate::seam::Drop;
use quorate_types::{Block, Certificate, Digest, Domain, Subject, View};
use std::marker::PhantomData;
use std::sync::Arc;

/// Engine of a chained protocol, given its rules.
pub type ChainedEngine<R> = ViewEngine<Chained<R>>;

/// Family of the protocols that follow chained rules.
pub struct Chained<R> {
    rules: PhantomData<R>,
}

impl<R: Rules> Chained<R> {
    /// Whether a certificate raises the lock only if it is timely.
    const LOCKS_IN_TIME: bool = R::FACTS.awaited_delays > 0;

    /// Returns the lock, unless the certificate is `late`, and the commit that the rules derive from a certified block
    /// in the tree.
    fn certified<'a>(
        digest: &Digest,
        late: bool,
        tree: &'a BlockTree,
    ) -> impl Iterator<Item = Consequence> + use<'a, R> {
        let block = tree.get(digest);
        let lock = block.filter(|_| !late).and_then(|block| R::lock_after(block, tree)).map(Consequence::Lock);
        let commits = block.and_then(|block| R::commits(block, tree));
        // If all replicas collect the votes, all know the certificate.
        let announce = !R::FACTS.optimistic_proposals;
        lock.into_iter().chain(commits.map(move |block| Consequence::Commit { block, announce }))
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

    /// Returns the subject of the previous view's votes or, after a timeout, of the certificate that the leader
    /// extends.
    fn basis(_view: View, justify: &Certificate, evidence: Option<&Certificate>) -> Subject {
        let votes = evidence.filter(|evidence| evidence.subject.domain == Domain::Vote);
        votes.map_or(justify.subject, |votes| votes.subject)
    }

    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
        R::may_vote(candidate, tree)
    }

    fn would_commit(block: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        R::commits(block, tree)
    }

    fn admit_vote(&self, known: Known<'_>, subject: &Subject) -> Result<(), Drop> {
        match subject.domain {
            Domain::Vote if subject.view > known.high.view() => Ok(()),
            Domain::Vote => Err(Drop::Late),
            _ => Err(Drop::Malformed),
        }
    }

    fn on_certificate<'a>(&mut self, certificate: &'a Certificate, known: Known<'a>) -> Vec<Consequence> {
        let subject = certificate.subject;
        if subject.domain != Domain::Vote || subject.view <= known.high.view() {
            return Vec::new();
        }
        let mut consequences = vec![Consequence::Raise(certificate.clone())];
        match known.tree.contains(&subject.digest) {
            true => {
                let late = Self::LOCKS_IN_TIME && !known.is_timely(subject.view);
                consequences.extend(Self::certified(&subject.digest, late, known.tree));
            }
            false => consequences.push(Consequence::Fetch(subject)),
        }
        consequences
    }

    fn on_complete_block(&self, block: &Block, known: Known<'_>) -> Vec<Consequence> {
        // If views failed in between, the parent's certificate may have committed a block that the highest certificate
        // does not. An optimistic block does not show that its parent is certified.
        let parent =
            (!block.is_optimistic()).then(|| Self::certified(&block.parent(), Self::LOCKS_IN_TIME, known.tree));
        let is_high = block.digest() == known.high.subject.digest;
        let late = Self::LOCKS_IN_TIME && !known.high_was_timely();
        let own = is_high.then(|| Self::certified(&block.digest(), late, known.tree));
        parent.into_iter().flatten().chain(own.into_iter().flatten()).collect()
    }
}
