//! Replicas with scripted statements.

use bytes::Bytes;
use quorate_adversary::oracles::{Property, Statements, Violation};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::pbft::message::{Declaration, PbftMessage, ViewChange};
use quorate_consensus::protocols::views::message::{Proposal, Timeout, ViewMessage};
use quorate_consensus::voting::safety::timeout_subject;
use quorate_consensus::{Envelope, Message};
use quorate_types::{
    Attachment, Block, Certificate, Digest, Domain, EpochId, Height, ReplicaId, Signers, Subject, View, Vote,
};
use std::sync::Arc;

pub struct Fixture {
    pub oracle: Statements,
}

pub fn replicas(list: &[u16]) -> impl Iterator<Item = ReplicaId> + '_ {
    list.iter().copied().map(ReplicaId)
}

pub fn genesis() -> Certificate {
    Certificate::genesis(&EpochId::of_name("test"))
}

pub fn vote(voter: u16, subject: Subject, attachment: Attachment) -> Vote {
    Vote { subject, attachment, voter: ReplicaId(voter), signature: Bytes::new() }
}

pub fn certificate(subject: Subject, signers: &[u16], attachments: Vec<Attachment>) -> Certificate {
    let signers: Signers = replicas(signers).collect();
    Certificate { subject, signers, attachments, proof: Bytes::new() }
}

pub fn certified(block: &Block, domain: Domain) -> Certificate {
    certificate(block.subject(domain), &[0, 1, 2], Vec::new())
}

/// A certificate of three timeouts, with the views that they report.
pub fn timeouts(view: u64, told: [u64; 3]) -> Certificate {
    let told = told.map(|view| Attachment::HighView(View(view)));
    certificate(timeout_subject(View(view)), &[0, 1, 2], told.to_vec())
}

pub fn block(view: u64, author: u16, base: &Certificate) -> Arc<Block> {
    Arc::new(Block::new(View(view), ReplicaId(author), base.clone(), Vec::new(), 0))
}

impl Fixture {
    pub fn new(protocol: ProtocolKind) -> Fixture {
        Fixture { oracle: Statements::new(protocol, 4, 1) }
    }

    pub fn says<M: Message>(&mut self, who: u16, message: M) -> Result<(), Violation> {
        self.oracle.says(ReplicaId(who), &mut Envelope::Protocol(message))
    }

    pub fn proposes(&mut self, block: &Arc<Block>, evidence: Option<Certificate>) -> Result<(), Violation> {
        let endorsement = vote(block.author.0, block.subject(Domain::Proposal), Attachment::None);
        let proposal = Proposal { block: block.clone(), evidence, endorsement, bundles: Vec::new() };
        self.says(block.author.0, ViewMessage::Proposal(Arc::new(proposal)))
    }

    pub fn votes(&mut self, who: u16, domain: Domain, block: &Block) -> Result<(), Violation> {
        self.says(who, ViewMessage::Vote(vote(who, block.subject(domain), Attachment::None)))
    }

    /// Proposes a block on a certificate, with the votes of three replicas.
    pub fn certifies(&mut self, view: u64, base: &Certificate) -> (Arc<Block>, Certificate) {
        let block = block(view, (view % 4) as u16, base);
        self.proposes(&block, None).expect("the statement is valid");
        (0..3).for_each(|voter| self.votes(voter, Domain::Vote, &block).expect("the statement is valid"));
        let certificate = certified(&block, Domain::Vote);
        (block, certificate)
    }

    pub fn gives_up(&mut self, who: u16, view: u64, high: &Certificate) -> Result<(), Violation> {
        let told = Attachment::HighView(high.view());
        let vote = vote(who, timeout_subject(View(view)), told);
        self.says(who, ViewMessage::Timeout(Arc::new(Timeout { vote, high: high.clone(), evidence: None })))
    }

    pub fn says_of_slot(&mut self, who: u16, domain: Domain, view: u64, digest: Digest) -> Result<(), Violation> {
        self.says_of(who, of_slot(domain, view, digest))
    }

    pub fn says_of(&mut self, who: u16, subject: Subject) -> Result<(), Violation> {
        let vote = vote(who, subject, Attachment::None);
        match subject.domain {
            Domain::Prepare => self.says(who, PbftMessage::Prepare(vote)),
            _ => self.says(who, PbftMessage::Commit(vote)),
        }
    }

    pub fn changes_view(&mut self, who: u16, view: u64, prepared: Vec<Certificate>) -> Result<(), Violation> {
        let vote = view_change(who, view, &prepared).vote;
        let change = ViewChange { vote, checkpoint: genesis(), prepared, voted: Vec::new(), committed: Height(0) };
        self.says(who, PbftMessage::ViewChange(Box::new(change)))
    }
}

/// A statement about slot 1.
pub fn of_slot(domain: Domain, view: u64, digest: Digest) -> Subject {
    Subject { domain, view: View(view), height: Height(1), digest }
}

pub fn view_change(who: u16, view: u64, prepared: &[Certificate]) -> Declaration {
    let (checkpoint, prepared) = (genesis().subject, prepared.iter().map(|proof| proof.subject).collect::<Vec<_>>());
    let digest = Declaration::digest(&checkpoint, &prepared, &[]);
    let subject = Subject { domain: Domain::ViewChange, view: View(view), height: Height(0), digest };
    Declaration { vote: vote(who, subject, Attachment::None), checkpoint, prepared, voted: Vec::new() }
}

/// Asserts that a statement violates this invariant, with a message that contains these words.
pub fn assert_breach(said: Result<(), Violation>, property: Property, words: &str) {
    let breach = said.expect_err("the statement is a violation");
    assert_eq!(breach.property, property, "{}", breach.what);
    assert!(breach.what.contains(words), "{}", breach.what);
}
