//! Protocols in which the leader of each view proposes one block on top of a certificate, and the replicas vote on
//! it.
//!
//! The [`engine`] changes views, proposes, votes for proposals, times out and helps lagging replicas catch up. A
//! [`Family`] gives certificates their meaning: it decides which of them end a view, which of them a block may extend,
//! and which blocks they lock and commit. The engine carries out these decisions.
//!
//! A view begins only with a certificate of the previous view, either of view-ending votes or of timeouts. A replica
//! follows any peer that shows one, however far ahead. A timeout certificate moves a replica only together with the
//! highest certificate that the timeouts refer to ([`shows_claimed_certificate`]), because no block of the next view
//! may build on a lower one.

pub mod engine;
pub mod message;

pub use engine::ViewEngine;

use crate::config::VotesTo;
use crate::data::block_tree::BlockTree;
use crate::facts::Facts;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::Admission;
use crate::seam::{Drop, To};
use message::FromView;
use quorate_types::{Block, Certificate, Domain, ReplicaId, Subject, View};
use std::sync::Arc;

/// Proposal by the leader of the current view, with a complete block and verified certificates.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    pub block: &'a Block,
    /// Certificate of the previous view, unless the block's own certificate ends that view.
    pub evidence: Option<&'a Certificate>,
    pub lock: Subject,
}

/// State of the engine that a family's decisions depend on.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub view: View,
    /// Highest certificate that a block may extend.
    pub high: &'a Certificate,
    /// Whether the current view began with the highest certificate, not with timeouts.
    pub high_began: bool,
    pub lock: Subject,
    /// Last view that this replica timed out of.
    pub timed_out: View,
    pub tree: &'a BlockTree,
}

impl Known<'_> {
    /// Returns whether a certificate of `view` that is learnt now is timely: its view is the current one or later, and
    /// this replica has not timed out of it.
    pub fn is_timely(&self, view: View) -> bool {
        view >= self.view && view > self.timed_out
    }

    /// Returns whether the highest certificate began the current view and was timely when this replica learnt it.
    pub fn high_was_timely(&self) -> bool {
        self.high_began && self.high.view().next() == self.view && self.high.view() > self.timed_out
    }
}

/// Consequence of a certificate or a complete block. The engine carries out consequences in the given order.
#[derive(Clone, Debug)]
pub enum Consequence {
    /// The certificate becomes the highest: its view is higher than the previous one's, or its phase is later in the
    /// same view.
    Raise(Certificate),
    /// The lock rises to this subject, unless it is already higher.
    Lock(Subject),
    /// The block of this subject is needed.
    Fetch(Subject),
    /// The block and its ancestors are committed. If this commits commands and perhaps no other replica knows the
    /// certificate, `announce` makes the engine send it to the others, unless a proposal is about to carry it.
    Commit { block: Arc<Block>, announce: bool },
    /// A vote in a later phase, to the block's proposer, unless this replica voted in that phase before.
    Vote { phase: Domain, block: Arc<Block> },
}

/// Reason for not voting: the violated rule of the paper.
pub type Refusal = &'static str;

/// Differences between protocols with views.
pub trait Family: Send + Sized + 'static {
    type Message: FromView;

    const FACTS: Facts;
    /// Domain of the votes for a proposal.
    const VOTES: Domain;
    /// Domain of the votes whose certificate ends its view, because the view's work is done. Timeout certificates also
    /// end a view.
    const ENDS_VIEW: Domain;
    /// Domains of the certificates that a block may extend, besides that of genesis.
    const BUILDS_ON: &'static [Domain];
    /// Whether the votes for a block go to the next leader, who builds on their certificate. Otherwise they go to the
    /// block's proposer.
    const NEXT_LEADER_COLLECTS: bool;

    /// Creates the initial state.
    fn new(genesis: &Certificate) -> Self;

    /// Returns the certificate that a leader extends, given its highest one and the evidence that its view has begun.
    fn extends<'a>(high: &'a Certificate, evidence: Option<&'a Certificate>) -> &'a Certificate;

    /// Returns the subject from which the leader of `view` is elected, given that the leader extends `justify` and
    /// shows `evidence`. The subject belongs to an earlier view.
    fn basis(view: View, justify: &Certificate, evidence: Option<&Certificate>) -> Subject;

    /// Checks whether the rules allow a vote for a block. [`Safety`](crate::voting::safety::Safety) ensures one vote
    /// per view, in ascending views.
    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal>;

    /// Screens a vote that its voter sent without an attachment; an error is the reason not to count it.
    fn admit_vote(&self, known: Known<'_>, subject: &Subject) -> Result<(), Drop>;

    /// Returns whether a block that extends `justify` may determine the leader after the timeouts in the evidence, if
    /// the election depends on the extended block. The certificate must be at least as high as the highest that the
    /// timeouts name. Otherwise a faulty replica could choose an old certificate that makes it the leader.
    fn elects(justify: &Certificate, evidence: Option<&Certificate>) -> bool {
        justify.view() >= evidence.and_then(Certificate::highest_attached_view).unwrap_or(View(0))
    }

    /// Returns whether a leader of `view` waits up to [`awaited_delays`](Facts::awaited_delays) times the longest
    /// message delay for a certificate higher than its highest.
    fn awaits_higher(_view: View, _high: &Certificate) -> bool {
        false
    }

    /// Screens a message that only this protocol has.
    fn admit(&self, _known: Known<'_>, _message: &Self::Message) -> Admission {
        unreachable!("this protocol has only the messages that all protocols with views share")
    }

    /// Returns the verified certificates in a message that only this protocol has.
    fn certificates(_message: Self::Message) -> Vec<Certificate> {
        unreachable!("this protocol has only the messages that all protocols with views share")
    }

    /// Returns the message that shows the others a certificate that this replica formed from votes, if the protocol has
    /// one.
    fn phase_message(_certificate: &Certificate) -> Option<Self::Message> {
        None
    }

    /// Returns the block that the certification of `block` commits, if any. Only optimistic leaders ask.
    fn would_commit(_block: &Block, _tree: &BlockTree) -> Option<Arc<Block>> {
        None
    }

    /// Decides what follows from a verified certificate of votes.
    fn on_certificate<'a>(&mut self, certificate: &'a Certificate, known: Known<'a>) -> Vec<Consequence>;

    /// Decides what follows from a block that became complete.
    fn on_complete_block(&self, block: &Block, known: Known<'_>) -> Vec<Consequence>;
}

/// Returns the replica that collects the votes for a block in the tree.
pub fn collector<F: Family>(block: &Block, parts: &Parts) -> ReplicaId {
    if !F::NEXT_LEADER_COLLECTS {
        return block.author;
    }
    let next = parts.leaders.leader(block.view.next(), &block.subject(F::ENDS_VIEW), &parts.store.tree);
    next.expect("the block is in the tree")
}

/// Returns the recipients of a vote for a block in the tree.
pub fn votes_to<F: Family>(block: &Block, parts: &Parts) -> To {
    match parts.config.votes {
        _ if F::FACTS.optimistic_proposals => To::All,
        VotesTo::All => To::All,
        VotesTo::Collector => To::One(collector::<F>(block, parts)),
    }
}

/// Returns whether the domain of a certificate allows a block to extend it. In view 0 only the genesis certificate can
/// be genuine.
pub fn builds_on<F: Family>(certificate: &Certificate) -> bool {
    is_genesis(certificate) || F::BUILDS_ON.contains(&certificate.subject.domain)
}

/// Returns whether the evidence ends the view before `view`, so that `view` has begun. Without evidence, the highest
/// certificate must end it. A message with evidence of any other view is invalid. The certificates are unverified and
/// may be forged.
pub fn begins<F: Family>(view: View, high: &Certificate, evidence: Option<&Certificate>) -> bool {
    let before = |certificate: &Certificate| view.0.checked_sub(1) == Some(certificate.view().0);
    let ends = |certificate: &Certificate| certificate.subject.domain == F::ENDS_VIEW || is_genesis(certificate);
    evidence.map_or(before(high) && ends(high), |evidence| {
        before(evidence) && (ends(evidence) || evidence.subject.domain == Domain::Timeout)
    })
}

/// Returns whether `high`, the view of the certificate that accompanies the evidence, is at least the highest view that
/// the evidence's signers claim. Only a signer's own signature covers its claim. A faulty replica could therefore claim
/// a certificate that does not exist, and no block could satisfy the replicas that entered a view because of that
/// claim. Honest replicas count a timeout only once they know the certificate that it refers to.
pub fn shows_claimed_certificate<F: Family>(high: View, evidence: Option<&Certificate>) -> bool {
    let Some(claimed) = evidence.and_then(Certificate::highest_attached_view) else { return true };
    let attached =
        evidence.and_then(Certificate::highest_attached_certificate).filter(|attached| builds_on::<F>(attached));
    claimed <= high.max(attached.map_or(View(0), Certificate::view))
}

/// Returns whether a certificate ends its view, so that the next one has begun.
pub fn ends_view<F: Family>(certificate: &Certificate) -> bool {
    let domain = certificate.subject.domain;
    is_genesis(certificate) || domain == F::ENDS_VIEW || domain == Domain::Timeout
}

fn is_genesis(certificate: &Certificate) -> bool {
    certificate.view() == View(0) && certificate.subject.domain == Domain::Vote
}
