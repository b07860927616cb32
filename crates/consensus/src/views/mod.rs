//! Protocols in which the leader of a view proposes one block, on top of a certificate, and replicas vote.
//!
//! The [`engine`] moves the view, proposes, votes for proposals, gives views up, and lets those who fell behind catch up. A
//! [`Family`] says what certificates mean: which of them end a view, which may be built on, what they lock and commit.
//!
//! A view begins with a certificate of the view before it, of votes that end a view or of timeouts, and with nothing else: whoever
//! shows one may be followed however far ahead it is, and whoever shows none is not. A certificate of timeouts moves a replica only
//! together with the certificate of which the timeouts tell ([`shows_what_it_tells`]): in the next view nobody may build on less.

pub mod engine;
pub mod message;

pub use engine::{ViewEngine, Views};

use crate::block_tree::BlockTree;
use crate::config::VotesTo;
use crate::facts::Facts;
use crate::replica::{Admission, Outbox, Parts};
use crate::seam::To;
use message::FromView;
use quorate_types::{Block, Certificate, Domain, ReplicaId, Subject, Time, View};

/// A proposal for the current view by its leader, whose block is whole and whose certificates are genuine.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The block to vote for.
    pub block: &'a Block,
    /// The certificate of the view before, where the block's own does not end that view.
    pub evidence: Option<&'a Certificate>,
    /// What this replica is locked on.
    pub lock: Subject,
}

/// Why not to vote: the line of the paper's rule that is not met.
pub type Refusal = &'static str;

/// What protocols with views differ in.
pub trait Family: Send + Sized + 'static {
    /// What replicas say to each other.
    type Message: FromView;

    /// What the protocol is.
    const FACTS: Facts;
    /// What replicas vote with for a proposal.
    const VOTES: Domain;
    /// A certificate of such votes ends its view: what the view was for is done. So does one of timeouts.
    const ENDS_VIEW: Domain;
    /// Of what a certificate may be that a block is built on, besides that of genesis.
    const BUILDS_ON: &'static [Domain];
    /// Whether the votes for a block are collected by the leader of the next view, who builds on their certificate, and not by its own.
    const NEXT_LEADER_COLLECTS: bool;

    /// At genesis.
    fn new(genesis: &Certificate) -> Self;

    /// The certificate on which a leader builds, of the highest it knows and the evidence that its view has begun.
    fn extends<'a>(high: &'a Certificate, evidence: Option<&'a Certificate>) -> &'a Certificate;

    /// What the leader of `view` is elected on, when it builds on `justify` and shows `evidence`; of an earlier view.
    fn basis(view: View, justify: &Certificate, evidence: Option<&Certificate>) -> Subject;

    /// Whether to vote for a block. That a replica votes once a view, in ascending views, is not asked here.
    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal>;

    /// A cheap look at a vote of the voter's own, without attachment: why not to count it, if it is not to be counted.
    fn admit_vote(&self, views: &Views<Self>, parts: &Parts, subject: &Subject) -> Result<(), crate::seam::Drop>;

    /// Whether a block on `justify` may say who leads after the timeouts in the evidence, where the election depends on what is built
    /// on: that has to be as high as the timeouts tell, lest a faulty replica choose an old certificate under which it would lead.
    fn elects(justify: &Certificate, evidence: Option<&Certificate>) -> bool {
        justify.view() >= evidence.and_then(Certificate::highest_attached_view).unwrap_or(View(0))
    }

    /// Whether a leader of `view` waits for a certificate higher than the highest that it knows, for as long as a message takes at most.
    fn awaits_higher(_view: View, _high: &Certificate) -> bool {
        false
    }

    /// A cheap look at a message that only this protocol knows.
    fn admit(&self, _views: &Views<Self>, _parts: &Parts, _from: ReplicaId, _message: &Self::Message) -> Admission {
        unreachable!("there are no messages but those of all protocols with views")
    }

    /// The certificates in a message that only this protocol knows, which are genuine.
    fn certificates(_message: Self::Message) -> Vec<Certificate> {
        unreachable!("there are no messages but those of all protocols with views")
    }

    /// This replica has made a certificate out of votes.
    fn formed(&mut self, _certificate: &Certificate, _out: &mut Outbox<Self::Message>) {}

    /// A certificate of votes, which is genuine and may be the highest now: locks, commits, votes in later phases.
    fn learn(
        &mut self,
        now: Time,
        certificate: &Certificate,
        from: ReplicaId,
        views: &mut Views<Self>,
        parts: &mut Parts,
        out: &mut Outbox<Self::Message>,
    );

    /// A block is whole now.
    fn whole(&mut self, block: &Block, views: &mut Views<Self>, parts: &mut Parts, out: &mut Outbox<Self::Message>);
}

/// Who collects the votes for a block that is in the tree.
pub fn collector<F: Family>(block: &Block, parts: &Parts) -> ReplicaId {
    if !F::NEXT_LEADER_COLLECTS {
        return block.author;
    }
    let next = parts.leaders.leader(block.view.next(), &block.subject(F::ENDS_VIEW), &parts.store.tree);
    next.expect("the block is in the tree")
}

/// To whom the vote for a block goes that is in the tree.
pub fn votes_to<F: Family>(block: &Block, parts: &Parts) -> To {
    match parts.config.votes {
        VotesTo::All => To::All,
        VotesTo::Collector => To::One(collector::<F>(block, parts)),
    }
}

/// Whether a certificate may be built on, as far as its kind goes. Of view 0 none but that of genesis can be genuine.
pub fn builds_on<F: Family>(certificate: &Certificate) -> bool {
    is_genesis(certificate) || F::BUILDS_ON.contains(&certificate.subject.domain)
}

/// Whether the evidence, or where there is none the highest certificate, ends the view before `view`, so that `view` has begun.
/// Evidence of any other view has no business in a message. Nothing is assumed of the certificates, which may be forged.
pub fn begins<F: Family>(view: View, high: &Certificate, evidence: Option<&Certificate>) -> bool {
    let before = |certificate: &Certificate| view.0.checked_sub(1) == Some(certificate.view().0);
    let ends = |certificate: &Certificate| certificate.subject.domain == F::ENDS_VIEW || is_genesis(certificate);
    evidence.map_or(before(high) && ends(high), |evidence| {
        before(evidence) && (ends(evidence) || evidence.subject.domain == Domain::Timeout)
    })
}

/// Whether the certificate of view `high` that is shown with the evidence is as high as the signers of that say that they know. What a signer says is covered by its own
/// signature alone: a faulty replica can put a certificate that does not exist beside the timeouts of others, and no block could
/// satisfy those who entered a view by that. Honest replicas count a timeout only when they know the certificate of which it tells.
pub fn shows_what_it_tells<F: Family>(high: View, evidence: Option<&Certificate>) -> bool {
    let Some(told) = evidence.and_then(Certificate::highest_attached_view) else { return true };
    let attached =
        evidence.and_then(Certificate::highest_attached_certificate).filter(|attached| builds_on::<F>(attached));
    told <= high.max(attached.map_or(View(0), Certificate::view))
}

/// Whether a certificate ends its view, so that the next one has begun.
pub fn ends_view<F: Family>(certificate: &Certificate) -> bool {
    let domain = certificate.subject.domain;
    is_genesis(certificate) || domain == F::ENDS_VIEW || domain == Domain::Timeout
}

fn is_genesis(certificate: &Certificate) -> bool {
    certificate.view() == View(0) && certificate.subject.domain == Domain::Vote
}
