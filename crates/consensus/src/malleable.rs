//! What an adversary can reach in a message, whatever its protocol: the block that it proposes, the view that it names, the
//! certificates that it shows.
//!
//! Honest code says what it has to say and never changes it. Whoever misbehaves does, between the replica that acts and the host
//! that signs: what is changed here fits together again, as if the sender had said so from the beginning, and carries the sender's
//! own signature afterwards. The signatures of others stay what they are.

use crate::basic::message::BasicMessage;
use crate::pbft::message::{Declaration, PbftMessage, ViewChange};
use crate::safety::timeout_subject;
use crate::seam::Message;
use crate::views::message::{Proposal, Timeout, ViewMessage};
use quorate_types::{Attachment, Block, Bundle, Certificate, Digest, Domain, Height, View, Vote};
use std::sync::Arc;

/// What a message is for, in terms that all protocols share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// It proposes a block: a proposal, PRE-PREPARE.
    Proposal,
    /// It is one voice of a quorum that makes a certificate or a decision: a vote, PREPARE, COMMIT, CHECKPOINT.
    Vote,
    /// It gives a view up: a timeout, VIEW-CHANGE.
    Timeout,
    /// It shows certificates for their own sake: an advance, the PRE-COMMIT, COMMIT and DECIDE of basic HotStuff, NEW-VIEW.
    Certificate,
    /// It tells where its sender stands, or what it has executed: STATUS, DECIDED.
    Report,
}

/// What a certificate is to the message that shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// What is built on, or may be built on as far as the sender knows.
    Base,
    /// What shows that the view has begun, where the base does not.
    Evidence,
    /// The certificate of a phase.
    Phase,
    /// What is prepared in a slot.
    Prepared,
    /// The last stable checkpoint.
    Checkpoint,
}

/// Chooses what to show in place of a certificate; `None` hides it, where the message can do without.
pub type Choose<'a> = &'a mut dyn FnMut(Role, &Certificate) -> Option<Certificate>;

/// A message that can be made to say something else.
pub trait Malleable: Message {
    /// What it is for.
    fn purpose(&self) -> Purpose;

    /// The block that it proposes, and the commands that go with it.
    fn proposed(&self) -> Option<(&Arc<Block>, &[Bundle])>;

    /// Proposes another block, with these commands. What proposes nothing stays as it is.
    fn propose(&mut self, block: Arc<Block>, bundles: Vec<Bundle>);

    /// Names another view as the one it belongs to. What names none of its own stays as it is.
    fn claim_view(&mut self, view: View);

    /// The certificates that it shows. Those inside of statements that others signed are not among them.
    fn certificates(&self) -> Vec<(Role, &Certificate)>;

    /// Shows other certificates. A base that no longer shows that the view has begun becomes the evidence that it has.
    ///
    /// # Panics
    /// If a block is to be built on a certificate with attachments.
    fn show(&mut self, choose: Choose<'_>);

    /// A message that shows certificates for their own sake, where the protocol has one: the highest that one may build on, and perhaps
    /// what began the view.
    fn showing(_high: Certificate, _evidence: Option<Certificate>) -> Option<Self> {
        None
    }

    /// A message by which a replica in a view asks for all that it lacks, having executed nothing, where the protocol has one.
    fn asking(_view: View) -> Option<Self> {
        None
    }

    /// The height up to which its sender has executed, if it asks for what was decided above.
    fn asks_above(&self) -> Option<Height> {
        None
    }

    /// A message that tells which blocks were decided above a height, where the protocol has one.
    fn telling(_above: Height, _decided: Vec<Digest>) -> Option<Self> {
        None
    }

    /// Claims that this is prepared besides, where a message says what is. Whether it does.
    fn claim_prepared(&mut self, _proof: Certificate) -> bool {
        false
    }
}

impl Malleable for ViewMessage {
    fn purpose(&self) -> Purpose {
        match self {
            ViewMessage::Proposal(_) => Purpose::Proposal,
            ViewMessage::Vote(_) => Purpose::Vote,
            ViewMessage::Timeout(_) => Purpose::Timeout,
            ViewMessage::Advance { .. } => Purpose::Certificate,
        }
    }

    fn proposed(&self) -> Option<(&Arc<Block>, &[Bundle])> {
        match self {
            ViewMessage::Proposal(proposal) => Some((&proposal.block, &proposal.bundles)),
            _ => None,
        }
    }

    fn propose(&mut self, block: Arc<Block>, bundles: Vec<Bundle>) {
        if let ViewMessage::Proposal(proposal) = self {
            let proposal = Arc::make_mut(proposal);
            proposal.endorsement.subject = block.subject(Domain::Proposal);
            (proposal.block, proposal.bundles) = (block, bundles);
        }
    }

    fn claim_view(&mut self, view: View) {
        match self {
            ViewMessage::Proposal(proposal) => {
                let Block { author, justify, payload, .. } = (*proposal.block).clone();
                let bundles = std::mem::take(&mut Arc::make_mut(proposal).bundles);
                self.propose(Block::new(view, author, justify, payload).into(), bundles);
            }
            ViewMessage::Vote(vote) => vote.subject.view = view,
            ViewMessage::Timeout(timeout) => Arc::make_mut(timeout).vote.subject = timeout_subject(view),
            ViewMessage::Advance { .. } => {}
        }
    }

    fn certificates(&self) -> Vec<(Role, &Certificate)> {
        let (base, evidence) = match self {
            ViewMessage::Proposal(proposal) => (&proposal.block.justify, proposal.evidence.as_ref()),
            ViewMessage::Timeout(timeout) => (&timeout.high, timeout.evidence.as_ref()),
            ViewMessage::Advance { high, evidence } => (&**high, evidence.as_deref()),
            ViewMessage::Vote(_) => return Vec::new(),
        };
        std::iter::once((Role::Base, base)).chain(evidence.map(|evidence| (Role::Evidence, evidence))).collect()
    }

    fn show(&mut self, choose: Choose<'_>) {
        match self {
            ViewMessage::Proposal(proposal) => {
                let Proposal { block, evidence, bundles, .. } = Arc::make_mut(proposal);
                let base = show_base(block.view, &block.justify, evidence, choose);
                let changed = Block::new(block.view, block.author, base, block.payload.clone());
                let bundles = std::mem::take(bundles);
                self.propose(changed.into(), bundles);
            }
            ViewMessage::Timeout(timeout) => {
                let Timeout { vote, high, evidence } = Arc::make_mut(timeout);
                *high = show_base(vote.subject.view, high, evidence, choose);
                vote.attachment = match &vote.attachment {
                    Attachment::HighCertificate(_) => Attachment::HighCertificate(Box::new(high.clone())),
                    _ => Attachment::HighView(high.view()),
                };
            }
            ViewMessage::Advance { high, evidence } => {
                **high = choose(Role::Base, high).unwrap_or_else(|| (**high).clone());
                *evidence = evidence.take().and_then(|evidence| choose(Role::Evidence, &evidence)).map(Box::new);
            }
            ViewMessage::Vote(_) => {}
        }
    }

    fn showing(high: Certificate, evidence: Option<Certificate>) -> Option<Self> {
        Some(ViewMessage::Advance { high: Box::new(high), evidence: evidence.map(Box::new) })
    }
}

/// Chooses base and evidence of a message of `view`.
fn show_base(view: View, base: &Certificate, evidence: &mut Option<Certificate>, choose: Choose<'_>) -> Certificate {
    let chosen = choose(Role::Base, base).unwrap_or_else(|| base.clone());
    *evidence = match evidence.take() {
        Some(evidence) => choose(Role::Evidence, &evidence),
        None => (chosen.view().next() != view).then(|| base.clone()),
    };
    chosen
}

impl Malleable for BasicMessage {
    fn purpose(&self) -> Purpose {
        match self {
            BasicMessage::View(message) => message.purpose(),
            BasicMessage::Phase(_) => Purpose::Certificate,
        }
    }

    fn proposed(&self) -> Option<(&Arc<Block>, &[Bundle])> {
        match self {
            BasicMessage::View(message) => message.proposed(),
            BasicMessage::Phase(_) => None,
        }
    }

    fn propose(&mut self, block: Arc<Block>, bundles: Vec<Bundle>) {
        if let BasicMessage::View(message) = self {
            message.propose(block, bundles);
        }
    }

    fn claim_view(&mut self, view: View) {
        if let BasicMessage::View(message) = self {
            message.claim_view(view);
        }
    }

    fn certificates(&self) -> Vec<(Role, &Certificate)> {
        match self {
            BasicMessage::View(message) => message.certificates(),
            BasicMessage::Phase(certificate) => vec![(Role::Phase, certificate)],
        }
    }

    fn show(&mut self, choose: Choose<'_>) {
        match self {
            BasicMessage::View(message) => message.show(choose),
            BasicMessage::Phase(certificate) => {
                **certificate = choose(Role::Phase, certificate).unwrap_or_else(|| (**certificate).clone());
            }
        }
    }

    fn showing(high: Certificate, evidence: Option<Certificate>) -> Option<Self> {
        ViewMessage::showing(high, evidence).map(BasicMessage::View)
    }
}

impl Malleable for PbftMessage {
    fn purpose(&self) -> Purpose {
        match self {
            PbftMessage::PrePrepare(_) => Purpose::Proposal,
            PbftMessage::Prepare(_) | PbftMessage::Commit(_) => Purpose::Vote,
            PbftMessage::ViewChange(_) => Purpose::Timeout,
            PbftMessage::NewView(_) => Purpose::Certificate,
            PbftMessage::Status { .. } | PbftMessage::Decided { .. } => Purpose::Report,
        }
    }

    fn proposed(&self) -> Option<(&Arc<Block>, &[Bundle])> {
        match self {
            PbftMessage::PrePrepare(message) => Some((&message.block, &message.bundles)),
            _ => None,
        }
    }

    fn propose(&mut self, block: Arc<Block>, bundles: Vec<Bundle>) {
        if let PbftMessage::PrePrepare(message) = self {
            message.endorsement.subject = block.subject(Domain::Prepare);
            (message.block, message.bundles) = (block, bundles);
        }
    }

    fn claim_view(&mut self, view: View) {
        match self {
            PbftMessage::PrePrepare(message) => {
                let Block { height, author, payload, .. } = (*message.block).clone();
                let bundles = std::mem::take(&mut message.bundles);
                self.propose(Block::of_slot(view, author, height, payload).into(), bundles);
            }
            PbftMessage::Prepare(vote) | PbftMessage::Commit(vote) => vote.subject.view = view,
            PbftMessage::ViewChange(change) => change.vote.subject.view = view,
            PbftMessage::NewView(new_view) => new_view.endorsement.subject.view = view,
            PbftMessage::Status { view: told, .. } => *told = view,
            PbftMessage::Decided { .. } => {}
        }
    }

    fn certificates(&self) -> Vec<(Role, &Certificate)> {
        let (checkpoint, prepared): (_, &[Certificate]) = match self {
            PbftMessage::ViewChange(change) => (Some(&change.checkpoint), &change.prepared),
            PbftMessage::NewView(new_view) => (Some(&new_view.checkpoint), &new_view.prepared),
            PbftMessage::Decided { checkpoint, .. } => (checkpoint.as_deref(), &[]),
            _ => (None, &[]),
        };
        let checkpoint = checkpoint.map(|proof| (Role::Checkpoint, proof));
        checkpoint.into_iter().chain(prepared.iter().map(|proof| (Role::Prepared, proof))).collect()
    }

    /// What a NEW-VIEW selects follows from statements that others signed, so its proofs can be exchanged, but not what they prove.
    fn show(&mut self, choose: Choose<'_>) {
        let retain = |prepared: &mut Vec<Certificate>, choose: Choose<'_>| {
            *prepared = prepared.iter().filter_map(|proof| choose(Role::Prepared, proof)).collect();
        };
        match self {
            PbftMessage::ViewChange(change) => {
                let ViewChange { vote, checkpoint, prepared, .. } = &mut **change;
                *checkpoint = choose(Role::Checkpoint, checkpoint).unwrap_or_else(|| checkpoint.clone());
                retain(prepared, choose);
                declare(vote, checkpoint, prepared);
            }
            PbftMessage::NewView(new_view) => {
                let checkpoint = choose(Role::Checkpoint, &new_view.checkpoint);
                new_view.checkpoint = checkpoint.unwrap_or_else(|| new_view.checkpoint.clone());
                retain(&mut new_view.prepared, choose);
            }
            PbftMessage::Decided { checkpoint, .. } => {
                let shown = checkpoint.take().and_then(|proof| choose(Role::Checkpoint, &proof));
                *checkpoint = shown.map(Box::new);
            }
            _ => {}
        }
    }

    fn asking(view: View) -> Option<Self> {
        Some(PbftMessage::Status { view, committed: Height(0) })
    }

    fn asks_above(&self) -> Option<Height> {
        match self {
            PbftMessage::Status { committed, .. } => Some(*committed),
            _ => None,
        }
    }

    fn telling(above: Height, digests: Vec<Digest>) -> Option<Self> {
        Some(PbftMessage::Decided { above, digests, checkpoint: None })
    }

    fn claim_prepared(&mut self, proof: Certificate) -> bool {
        let PbftMessage::ViewChange(change) = self else { return false };
        let ViewChange { vote, checkpoint, prepared, .. } = &mut **change;
        let slot = proof.subject.height;
        prepared.retain(|known| known.subject.height != slot);
        let at = prepared.partition_point(|known| known.subject.height < slot);
        prepared.insert(at, proof);
        declare(vote, checkpoint, prepared);
        true
    }
}

/// Has a VIEW-CHANGE state what it shows.
fn declare(vote: &mut Vote, checkpoint: &Certificate, prepared: &[Certificate]) {
    let subjects: Vec<_> = prepared.iter().map(|proof| proof.subject).collect();
    vote.subject.height = checkpoint.subject.height;
    vote.subject.digest = Declaration::digest(&checkpoint.subject, &subjects);
}
