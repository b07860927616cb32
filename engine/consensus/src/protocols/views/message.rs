//! Messages of the protocols in which the leader of a view proposes a block.

use crate::seam::text::{self, certificate_name};
use crate::seam::{Message, Purpose, Role};
use quorate_types::limits::MAX_BLOCK_BUNDLES;
use quorate_types::stages::MessageKind;
use quorate_types::wire;
use quorate_types::{Block, Bundle, Certificate, Domain, ReplicaId, View, Vote};
use std::sync::Arc;

/// Block for a view, with the evidence that the view has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    pub block: Arc<Block>,
    /// Certificate of the previous view (of votes or of timeouts), unless the block's own certificate is from that
    /// view. With an optimistic block it is the leader's highest certificate, for lagging replicas.
    pub evidence: Option<Certificate>,
    /// Leader's signature on the block, as a vote in [its domain](Proposal::domain).
    pub endorsement: Vote,
    /// Commands, if the leader disseminates them with the proposal.
    pub bundles: Vec<Bundle>,
}

/// Statement that a replica timed out of a view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeout {
    /// Signed statement.
    pub vote: Vote,
    /// Highest certificate known to the sender that a block may extend.
    pub high: Certificate,
    /// Certificate of the previous view, unless `high` is from that view.
    pub evidence: Option<Certificate>,
}

/// Message of a protocol with views.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ViewMessage {
    /// From the leader to all.
    Proposal(Arc<Proposal>),
    /// To the replica that collects the votes.
    Vote(Vote),
    /// From a replica that timed out to all; f+1 of them make the others time out too.
    Timeout(Arc<Timeout>),
    /// To a lagging replica: the certificates that began the sender's view.
    Advance {
        /// Highest certificate that a block may extend.
        high: Box<Certificate>,
        /// Certificate of the previous view, unless `high` is that certificate.
        evidence: Option<Box<Certificate>>,
    },
}

impl Message for ViewMessage {
    fn vote_to_sign(&mut self) -> Option<&mut Vote> {
        match self {
            ViewMessage::Proposal(proposal) => Some(&mut Arc::make_mut(proposal).endorsement),
            ViewMessage::Vote(vote) => Some(vote),
            ViewMessage::Timeout(timeout) => Some(&mut Arc::make_mut(timeout).vote),
            ViewMessage::Advance { .. } => None,
        }
    }

    fn purpose(&self) -> Purpose {
        match self {
            ViewMessage::Proposal(_) => Purpose::Proposal,
            ViewMessage::Vote(_) => Purpose::Vote,
            ViewMessage::Timeout(_) => Purpose::Timeout,
            ViewMessage::Advance { .. } => Purpose::Certificate,
        }
    }

    fn kind(&self) -> MessageKind {
        match self {
            ViewMessage::Proposal(_) => MessageKind::Proposal,
            ViewMessage::Vote(_) => MessageKind::Vote,
            ViewMessage::Timeout(_) => MessageKind::Timeout,
            ViewMessage::Advance { .. } => MessageKind::Certificate,
        }
    }

    fn proposed(&self) -> Option<(&Arc<Block>, &[Bundle])> {
        match self {
            ViewMessage::Proposal(proposal) => Some((&proposal.block, &proposal.bundles)),
            _ => None,
        }
    }

    fn certificates(&self) -> Vec<(Role, &Certificate)> {
        let (base, evidence) = match self {
            ViewMessage::Proposal(proposal) if proposal.block.is_optimistic() => {
                return proposal.evidence.iter().map(|evidence| (Role::Evidence, evidence)).collect();
            }
            ViewMessage::Proposal(proposal) => (&proposal.block.justify, proposal.evidence.as_ref()),
            ViewMessage::Timeout(timeout) => (&timeout.high, timeout.evidence.as_ref()),
            ViewMessage::Advance { high, evidence } => (&**high, evidence.as_deref()),
            ViewMessage::Vote(_) => return Vec::new(),
        };
        std::iter::once((Role::Base, base)).chain(evidence.map(|evidence| (Role::Evidence, evidence))).collect()
    }

    fn view(&self) -> Option<View> {
        match self {
            ViewMessage::Proposal(proposal) => Some(proposal.block.view),
            ViewMessage::Vote(vote) => Some(vote.subject.view),
            ViewMessage::Timeout(timeout) => Some(timeout.vote.subject.view),
            ViewMessage::Advance { .. } => None,
        }
    }

    fn describe(&self) -> String {
        let and = |evidence: Option<&Certificate>| {
            evidence.map(|evidence| format!(" and {}", certificate_name(evidence))).unwrap_or_default()
        };
        match self {
            ViewMessage::Proposal(proposal) => {
                format!("proposal of {}{}", text::block(&proposal.block), and(proposal.evidence.as_ref()))
            }
            ViewMessage::Vote(vote) => text::vote(vote),
            ViewMessage::Timeout(timeout) => {
                let high = certificate_name(&timeout.high);
                format!("{}, shows {high}{}", text::vote(&timeout.vote), and(timeout.evidence.as_ref()))
            }
            ViewMessage::Advance { high, evidence } => {
                format!("shows {}{}", certificate_name(high), and(evidence.as_deref()))
            }
        }
    }
}

impl Proposal {
    /// Returns the evidence that the view of the block has begun. An optimistic proposal shows none.
    pub fn evidence(&self) -> Option<&Certificate> {
        self.evidence.as_ref().filter(|_| !self.block.is_optimistic())
    }

    /// Returns the domain of the leader's signature on a block.
    pub fn domain(block: &Block) -> Domain {
        if block.is_optimistic() { Domain::OptimisticProposal } else { Domain::Proposal }
    }

    /// Returns whether the parts are consistent. The certificates' domains are checked elsewhere.
    pub fn is_well_formed(&self, from: ReplicaId) -> bool {
        let block = &self.block;
        let bare = || block.justify.proof.is_empty() && block.justify.view().next() == block.view;
        (!block.is_optimistic() || bare())
            && self.endorsement.subject == block.subject(Proposal::domain(block))
            && self.endorsement.voter == block.author
            && block.author == from
            && block.justify.view() < block.view
    }
}

/// Message set of a protocol with views: these messages, and possibly others.
pub trait FromView: Message + From<ViewMessage> {
    /// Returns the shared message, or the message itself as the error if it is the protocol's own.
    fn into_view(self) -> Result<ViewMessage, Self>;
    /// Returns the shared message by reference, or `None` if the message is the protocol's own.
    fn as_view(&self) -> Option<&ViewMessage>;
}

impl FromView for ViewMessage {
    fn into_view(self) -> Result<ViewMessage, Self> {
        Ok(self)
    }

    fn as_view(&self) -> Option<&ViewMessage> {
        Some(self)
    }
}

wire! {
    struct Proposal { block, evidence, endorsement, bundles: list["proposal bundles", MAX_BLOCK_BUNDLES, 16] }
}

wire! { struct Timeout { vote, high, evidence } }

wire! {
    enum ViewMessage as "view message" {
        1 = Proposal(proposal),
        2 = Vote(vote),
        3 = Timeout(timeout),
        4 = Advance { high, evidence },
    }
}
