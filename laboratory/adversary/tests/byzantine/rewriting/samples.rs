//! Messages of every protocol, by purpose.

use quorate_adversary::byzantine::Malleable;
use quorate_adversary::byzantine::{Behaviour, Context, Fault, Misbehaviour};
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::pbft::message::{Declaration, NewView, PbftMessage, PrePrepare, ViewChange};
use quorate_consensus::protocols::views::message::{Proposal, Timeout, ViewMessage};
use quorate_consensus::seam::RecordId;
use quorate_consensus::seam::{Purpose, Role};
use quorate_consensus::voting::safety::timeout_subject;
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{
    Attachment, Block, BundleBuilder, Certificate, ClientId, Digest, Domain, EpochId, Height, Quorum, ReplicaId,
    Subject, Time, View, Vote,
};
use std::sync::Arc;
use std::time::Duration;

/// Shape of proofs: lists of 64-byte signatures.
pub const SHAPE: quorate_types::identity::ProofShape =
    quorate_types::identity::ProofShape { signature_bytes: 64, is_aggregate: false };
pub const ME: ReplicaId = ReplicaId(0);
/// Base of view timeouts.
pub const VIEW_TIMEOUT: Duration = Duration::from_millis(1000);
/// Sent messages: recipients, message, and whether the host signs it.
pub type Heard<M> = Vec<(To, M, bool)>;

pub fn quorum() -> Quorum {
    Quorum::of(4).expect("a sound size")
}

pub fn genesis() -> Certificate {
    Certificate::genesis(&EpochId::of_name("samples"))
}

pub fn unsigned(subject: Subject, attachment: Attachment) -> Vote {
    Vote { subject, attachment, voter: ME, signature: bytes::Bytes::new() }
}

/// Message set of a protocol, with constructors for its messages.
pub trait Sample: Malleable + PartialEq {
    /// Kind of certificate that a block may extend.
    const CERTIFIES: Domain;
    /// Returns a block of this view on top of another.
    fn block(view: u64, on: &Certificate, payload: Vec<Digest>) -> Arc<Block>;
    /// Returns a block's proposal.
    fn proposal(block: Arc<Block>) -> Self;
    /// Returns a vote for a block.
    fn vote(block: &Block) -> Self;
    /// Returns a timeout of this view, with the highest certificate of its sender.
    fn timeout(view: u64, known: &Certificate) -> Self;
    /// Returns a message that only presents a certificate.
    fn shown(certificate: Certificate) -> Self;

    /// Returns a certificate of a block by a quorum.
    fn certificate(block: &Block) -> Certificate {
        let signers = (0..3).map(ReplicaId).collect();
        let subject = block.subject(Self::CERTIFIES);
        Certificate { subject, signers, attachments: Vec::new(), proof: vec![7; 3 * 64].into() }
    }

    /// Returns blocks of views 1 to `length`, each with two bundles.
    fn chain(length: u64) -> Vec<Arc<Block>> {
        let mut chain: Vec<Arc<Block>> = Vec::new();
        for view in 1..=length {
            let on = chain.last().map_or_else(genesis, |last| Self::certificate(last));
            chain.push(Self::block(view, &on, vec![Digest([view as u8; 32]), Digest([100 + view as u8; 32])]));
        }
        chain
    }
}

fn linked(view: u64, on: &Certificate, payload: Vec<Digest>) -> Arc<Block> {
    Arc::new(Block::new(View(view), ME, on.clone(), payload, 0))
}

impl Sample for ViewMessage {
    const CERTIFIES: Domain = Domain::Vote;

    fn block(view: u64, on: &Certificate, payload: Vec<Digest>) -> Arc<Block> {
        linked(view, on, payload)
    }

    fn proposal(block: Arc<Block>) -> Self {
        let endorsement = unsigned(block.subject(Domain::Proposal), Attachment::None);
        ViewMessage::Proposal(Arc::new(Proposal { block, evidence: None, endorsement, bundles: Vec::new() }))
    }

    fn vote(block: &Block) -> Self {
        ViewMessage::Vote(unsigned(block.subject(Domain::Vote), Attachment::None))
    }

    fn timeout(view: u64, known: &Certificate) -> Self {
        let vote = unsigned(timeout_subject(View(view)), Attachment::HighView(known.view()));
        ViewMessage::Timeout(Arc::new(Timeout { vote, high: known.clone(), evidence: None }))
    }

    fn shown(certificate: Certificate) -> Self {
        ViewMessage::Advance { high: Box::new(certificate), evidence: None }
    }
}

impl Sample for BasicMessage {
    const CERTIFIES: Domain = Domain::Prepare;

    fn block(view: u64, on: &Certificate, payload: Vec<Digest>) -> Arc<Block> {
        linked(view, on, payload)
    }

    fn proposal(block: Arc<Block>) -> Self {
        ViewMessage::proposal(block).into()
    }

    fn vote(block: &Block) -> Self {
        ViewMessage::Vote(unsigned(block.subject(Domain::Prepare), Attachment::None)).into()
    }

    fn timeout(view: u64, known: &Certificate) -> Self {
        ViewMessage::timeout(view, known).into()
    }

    fn shown(certificate: Certificate) -> Self {
        BasicMessage::Phase(Box::new(certificate))
    }
}

impl Sample for PbftMessage {
    const CERTIFIES: Domain = Domain::Prepare;

    fn block(view: u64, _on: &Certificate, payload: Vec<Digest>) -> Arc<Block> {
        Arc::new(Block::of_slot(View(view), ME, Height(view), payload, 0))
    }

    fn proposal(block: Arc<Block>) -> Self {
        let endorsement = unsigned(block.subject(Domain::Prepare), Attachment::None);
        PbftMessage::PrePrepare(Box::new(PrePrepare { endorsement, block, bundles: Vec::new() }))
    }

    fn vote(block: &Block) -> Self {
        PbftMessage::Prepare(unsigned(block.subject(Domain::Prepare), Attachment::None))
    }

    fn timeout(view: u64, known: &Certificate) -> Self {
        let digest = Declaration::digest(&genesis().subject, &[known.subject], &[]);
        let subject = Subject { domain: Domain::ViewChange, view: View(view), height: Height(0), digest };
        PbftMessage::ViewChange(Box::new(ViewChange {
            vote: unsigned(subject, Attachment::None),
            checkpoint: genesis(),
            prepared: vec![known.clone()],
            voted: Vec::new(),
            committed: Height(0),
        }))
    }

    fn shown(certificate: Certificate) -> Self {
        let digest = NewView::digest(&[]);
        let subject = Subject { domain: Domain::Proposal, view: View(9), height: Height(0), digest };
        PbftMessage::NewView(Box::new(NewView {
            endorsement: unsigned(subject, Attachment::None),
            changes: Vec::new(),
            checkpoint: genesis(),
            prepared: vec![certificate],
        }))
    }
}

/// Behaviour of a replica under test, which rewrites messages of the replica.
pub struct Mouth<M> {
    behaviour: Box<dyn Behaviour<M>>,
}

impl<M: Sample> Mouth<M> {
    /// Creates a behaviour that misbehaves from the beginning.
    pub fn new(fault: impl Into<Fault>) -> Mouth<M> {
        Mouth::of(Misbehaviour::always(fault), quorum())
    }

    /// Creates this misbehaviour in a committee of this size.
    pub fn of(misbehaviour: Misbehaviour, quorum: Quorum) -> Mouth<M> {
        let context = Context { me: ME, quorum, shape: SHAPE, view_timeout: VIEW_TIMEOUT };
        Mouth { behaviour: misbehaviour.behaviour(context) }
    }

    /// Observes a message from a peer.
    pub fn hear(&mut self, message: M) {
        self.behaviour.observe(&Input::Receive { from: ReplicaId(1), message: Envelope::Protocol(message) });
    }

    pub fn observe(&mut self, input: &Input<M>) {
        self.behaviour.observe(input);
    }

    /// Observes bundles from clients.
    pub fn submit(&mut self, commands: &[&[u8]]) -> Vec<Digest> {
        let mut digests = Vec::new();
        for (number, command) in commands.iter().enumerate() {
            let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
            builder.push(ClientId(1), number as u64 + 1, command);
            let bundle = builder.finish();
            digests.push(bundle.digest());
            self.behaviour.observe(&Input::Submit { bundles: vec![bundle], sources: Vec::new() });
        }
        digests
    }

    /// Returns the rewritten actions of a step.
    pub fn rewrite(&mut self, at_ms: u64, mut actions: Vec<Action<M>>) -> Vec<Action<M>> {
        self.behaviour.rewrite(Time::from_millis(at_ms), &mut actions);
        actions
    }

    /// Sends a message to all at time 0, signed after record 1. Checks that the replica receives its own message
    /// unchanged, and returns the messages to the others.
    pub fn say(&mut self, message: &M) -> Heard<M> {
        self.say_to(To::All, message)
    }

    pub fn say_to(&mut self, to: To, message: &M) -> Heard<M> {
        let send = |to| {
            let message = Envelope::Protocol(message.clone());
            Action::Send { to, message, after: Some(RecordId(1)), sign: true }
        };
        let mut sent = sends(self.rewrite(0, vec![send(to)]));
        if to == To::All {
            let at = sent.iter().position(|(to, ..)| *to == To::One(ME)).expect("a replica receives its own message");
            assert_eq!(sent.remove(at), (To::One(ME), message.clone(), true), "the replica inside is honest");
        }
        sent
    }

    /// Returns the time of the behaviour's next due action.
    pub fn next(&self) -> Option<Time> {
        self.behaviour.next()
    }

    /// Returns the actions that are due.
    pub fn due(&mut self, at: Time) -> Vec<Action<M>> {
        let mut actions = Vec::new();
        self.behaviour.ring(at, &mut actions);
        actions
    }

    /// Returns the messages that are due.
    pub fn ring(&mut self, at_ms: u64) -> Heard<M> {
        sends(self.due(Time::from_millis(at_ms)))
    }

    pub fn answers_clients(&self, at_ms: u64) -> bool {
        self.behaviour.answers_clients(Time::from_millis(at_ms))
    }

    pub fn refuses_clients(&self, at_ms: u64) -> bool {
        self.behaviour.refuses_clients(Time::from_millis(at_ms))
    }
}

pub fn sends<M: Sample>(actions: Vec<Action<M>>) -> Heard<M> {
    let send = |action| match action {
        Action::Send { to, message: Envelope::Protocol(message), sign, .. } => (to, message, sign),
        other => panic!("{other:?} is not a message of the protocol"),
    };
    actions.into_iter().map(send).collect()
}

/// Returns the main certificate of a message.
pub fn main_certificate<M: Sample>(message: &M) -> Certificate {
    let wanted = |role: Role| matches!(role, Role::Base | Role::Phase | Role::Prepared);
    let shown = message.certificates().into_iter().find(|(role, _)| wanted(*role));
    shown.expect("it shows one").1.clone()
}

/// Returns the vote that the sender signs.
pub fn signed<M: Sample>(message: &M) -> Vote {
    message.clone().vote_to_sign().expect("it is signed").clone()
}

/// Checks that a changed message is consistent: the signed vote names the block and certificate in it.
pub fn assert_fits<M: Sample>(message: &M) {
    let vote = signed(message);
    match message.purpose() {
        Purpose::Proposal => {
            let block = message.proposed().expect("it proposes").0;
            assert_eq!(vote.subject, block.subject(vote.subject.domain), "the vote is for the block");
            assert_eq!(Some(block.view), message.view());
        }
        Purpose::Timeout if vote.subject.domain == Domain::ViewChange => {
            let shown = message.certificates();
            let prepared: Vec<Subject> =
                shown.iter().filter(|(role, _)| *role == Role::Prepared).map(|(_, proof)| proof.subject).collect();
            assert_eq!(shown[0].0, Role::Checkpoint);
            assert_eq!(vote.subject.digest, Declaration::digest(&shown[0].1.subject, &prepared, &[]));
        }
        Purpose::Timeout => {
            assert_eq!(vote.attachment, Attachment::HighView(main_certificate(message).view()));
        }
        _ => {}
    }
}
