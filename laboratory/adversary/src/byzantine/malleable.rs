//! The parts of a message that an adversary can change in any protocol: the proposed block, the view, and the
//! certificates.
//!
//! Changes happen between the replica and the host that signs. A changed message is consistent, as if the sender had
//! created it that way, and carries the sender's own signature. Signatures of other replicas remain unchanged.

use quorate_consensus::Protocol;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::pbft::message::{Declaration, PbftMessage, ViewChange, bare};
use quorate_consensus::protocols::views::message::{Proposal, Timeout, ViewMessage};
use quorate_consensus::replica::MakeReplica;
use quorate_consensus::seam::{Message, Role};
use quorate_consensus::voting::safety::timeout_subject;
use quorate_types::{Attachment, Block, Bundle, Certificate, Digest, Domain, Height, Subject, View, Vote};
use std::sync::Arc;

/// Chooses the replacement of a certificate. `None` hides it if the message is valid without it.
pub type Choose<'a> = &'a mut dyn FnMut(Role, &Certificate) -> Option<Certificate>;

/// A message whose contents can be changed.
pub trait Malleable: Message {
    /// Replaces the proposed block and its commands. Leaves other messages unchanged.
    fn propose(&mut self, block: Arc<Block>, bundles: Vec<Bundle>);

    /// Replaces the view of the message. Leaves messages without a view unchanged.
    fn claim_view(&mut self, view: View);

    /// Replaces the certificates. If the new base no longer proves that the view has begun, adds evidence for it.
    ///
    /// # Panics
    /// If a block would be built on a certificate with attachments.
    fn show(&mut self, choose: Choose<'_>);

    /// Returns a message that only presents certificates, if the protocol has one: the highest one that a block may
    /// extend, and optionally the one that began the view.
    fn showing(_high: Certificate, _evidence: Option<Certificate>) -> Option<Self> {
        None
    }

    /// Returns a message in which a replica that has executed nothing requests everything, if the protocol has one.
    fn asking(_view: View) -> Option<Self> {
        None
    }

    /// Returns the sender's executed height, if the message requests later decisions.
    fn asks_above(&self) -> Option<Height> {
        None
    }

    /// Returns a message that lists the blocks decided above a height, if the protocol has one.
    fn telling(_above: Height, _decided: Vec<Digest>) -> Option<Self> {
        None
    }

    /// Returns the vote, if the message contains one from which the loss of links is estimated: PREPARE or COMMIT of
    /// PBFT.
    fn counted_vote(&self) -> Option<&Vote> {
        None
    }

    /// Adds the claim that a proof's block is prepared, if the message reports prepared blocks. Returns whether it
    /// does.
    fn claim_prepared(&mut self, _proof: Certificate) -> bool {
        false
    }
}

impl Malleable for ViewMessage {
    fn propose(&mut self, block: Arc<Block>, bundles: Vec<Bundle>) {
        if let ViewMessage::Proposal(proposal) = self {
            let proposal = Arc::make_mut(proposal);
            proposal.endorsement.subject = block.subject(Proposal::domain(&block));
            (proposal.block, proposal.bundles) = (block, bundles);
        }
    }

    fn claim_view(&mut self, view: View) {
        match self {
            ViewMessage::Proposal(proposal) => {
                let Block { author, justify, payload, time_ms, .. } = (*proposal.block).clone();
                let covers = proposal.block.covers().clone();
                let bundles = std::mem::take(&mut Arc::make_mut(proposal).bundles);
                self.propose(Block::new(view, author, justify, payload, time_ms).with_covers(covers).into(), bundles);
            }
            ViewMessage::Vote(vote) => vote.subject.view = view,
            ViewMessage::Timeout(timeout) => Arc::make_mut(timeout).vote.subject = timeout_subject(view),
            ViewMessage::Advance { .. } => {}
        }
    }

    fn show(&mut self, choose: Choose<'_>) {
        match self {
            ViewMessage::Proposal(proposal) => {
                let Proposal { block, evidence, bundles, .. } = Arc::make_mut(proposal);
                let base = match block.is_optimistic() {
                    // The message contains no base, and its evidence does not depend on one.
                    true => {
                        *evidence = evidence.take().and_then(|evidence| choose(Role::Evidence, &evidence));
                        choose(Role::Base, &block.justify).unwrap_or_else(|| block.justify.clone())
                    }
                    false => show_base(block.view, &block.justify, evidence, choose),
                };
                let changed = Block::new(block.view, block.author, base, block.payload.clone(), block.time_ms);
                let changed = changed.with_covers(block.covers().clone());
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

/// Replaces the base and the evidence of a message of `view`.
fn show_base(view: View, base: &Certificate, evidence: &mut Option<Certificate>, choose: Choose<'_>) -> Certificate {
    let chosen = choose(Role::Base, base).unwrap_or_else(|| base.clone());
    *evidence = match evidence.take() {
        Some(evidence) => choose(Role::Evidence, &evidence),
        None => (chosen.view().next() != view).then(|| base.clone()),
    };
    chosen
}

impl Malleable for BasicMessage {
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
    fn propose(&mut self, block: Arc<Block>, bundles: Vec<Bundle>) {
        if let PbftMessage::PrePrepare(message) = self {
            message.endorsement.subject = block.subject(Domain::Prepare);
            (message.block, message.bundles) = (block, bundles);
        }
    }

    fn claim_view(&mut self, view: View) {
        match self {
            PbftMessage::PrePrepare(message) => {
                let Block { height, author, payload, time_ms, .. } = (*message.block).clone();
                let covers = message.block.covers().clone();
                let bundles = std::mem::take(&mut message.bundles);
                self.propose(
                    Block::of_slot(view, author, height, payload, time_ms).with_covers(covers).into(),
                    bundles,
                );
            }
            PbftMessage::Prepare(vote) | PbftMessage::Commit(vote) => vote.subject.view = view,
            PbftMessage::ViewChange(change) => change.vote.subject.view = view,
            PbftMessage::NewView(new_view) => new_view.endorsement.subject.view = view,
            PbftMessage::Status { view: reported, .. } => *reported = view,
            PbftMessage::Decided { .. } => {}
        }
    }

    /// The selection in a NEW-VIEW follows from statements signed by others: the proofs can be replaced, but not the
    /// facts that they prove.
    fn show(&mut self, choose: Choose<'_>) {
        let retain = |prepared: &mut Vec<Certificate>, choose: Choose<'_>| {
            let mut replace = |proof: &Certificate| {
                let chosen = choose(Role::Prepared, proof)?;
                // If claims are expected, the proof itself is ignored.
                Some(if *proof == bare(proof.subject) { bare(chosen.subject) } else { chosen })
            };
            *prepared = prepared.iter().filter_map(&mut replace).collect();
        };
        match self {
            PbftMessage::ViewChange(change) => {
                let ViewChange { checkpoint, prepared, .. } = &mut **change;
                *checkpoint = choose(Role::Checkpoint, checkpoint).unwrap_or_else(|| checkpoint.clone());
                retain(prepared, choose);
                declare(change);
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

    fn counted_vote(&self) -> Option<&Vote> {
        match self {
            PbftMessage::Prepare(vote) | PbftMessage::Commit(vote) => Some(vote),
            _ => None,
        }
    }

    fn telling(above: Height, digests: Vec<Digest>) -> Option<Self> {
        Some(PbftMessage::Decided { above, digests, checkpoint: None })
    }

    fn claim_prepared(&mut self, proof: Certificate) -> bool {
        let PbftMessage::ViewChange(change) = self else { return false };
        let ViewChange { prepared, voted, .. } = &mut **change;
        let Subject { height: slot, view, .. } = proof.subject;
        prepared.retain(|known| known.subject.height != slot);
        let at = prepared.partition_point(|known| known.subject.height < slot);
        // A claim without a proof needs a matching vote.
        match voted.is_empty() {
            true => prepared.insert(at, proof),
            false => {
                voted.retain(|vote| vote.height != slot);
                voted.insert(voted.partition_point(|vote| (vote.height, vote.view) < (slot, view)), proof.subject);
                prepared.insert(at, bare(proof.subject));
            }
        }
        declare(change);
        true
    }
}

/// Updates the statement of a VIEW-CHANGE to cover the message's certificates.
fn declare(change: &mut ViewChange) {
    let declaration = change.declaration();
    let Declaration { checkpoint, prepared, voted, .. } = &declaration;
    change.vote.subject.height = checkpoint.height;
    change.vote.subject.digest = Declaration::digest(checkpoint, prepared, voted);
}

/// Work that is generic over protocols with [`Malleable`] messages, which all protocols have.
pub trait ForMalleable {
    type Output;
    /// Performs the work for one protocol.
    fn run<P: Protocol<Message: Malleable> + 'static>(self, make: MakeReplica<P>) -> Self::Output;
}

/// Runs generic work for the protocol of this kind.
pub fn for_malleable<W: ForMalleable>(kind: ProtocolKind, work: W) -> W::Output {
    quorate_consensus::dispatch!(kind, work)
}
