//! Messages of PBFT.
//!
//! PREPARE and CHECKPOINT are signed, because a quorum of them is shown to others. A COMMIT is never shown to others,
//! so it is not signed: the channel authenticates its sender.

use crate::seam::text;
use crate::seam::{Message, Purpose, Role};
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::limits::{MAX_BLOCK_BUNDLES, MAX_REPLICAS};
use quorate_types::{
    Attachment, Block, Bundle, Certificate, DecodeError, Decoder, Digest, Domain, Encoder, Hasher, Height, ReplicaId,
    Subject, View, Vote, Wire,
};
use std::sync::Arc;

use crate::config::MAX_WINDOW;

/// Context in which the engine handles one event.
pub(super) type Turn<'a> = crate::protocols::turn::Turn<'a, PbftMessage>;

/// Maximum number of digests in one [`PbftMessage::Decided`].
pub const MAX_DECIDED: usize = 256;

/// Assignment of a block to a slot by the primary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrePrepare {
    /// Primary's signature in the domain of PREPARE: its PRE-PREPARE also counts as its PREPARE.
    pub endorsement: Vote,
    /// Block; its height is the slot.
    pub block: Arc<Block>,
    /// Commands, if the primary disseminates them.
    pub bundles: Vec<Bundle>,
}

/// Request of a replica to move to a view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewChange {
    /// Signed statement: the view, and a digest of the checkpoint and the prepared slots.
    pub vote: Vote,
    /// Last stable checkpoint, or genesis. C in the paper.
    pub checkpoint: Certificate,
    /// For each slot above the checkpoint, the PREPAREs of the highest view in which it was prepared at the sender; in
    /// ascending slots. P in the paper.
    pub prepared: Vec<Certificate>,
    /// Height up to which the sender has executed. Not signed; it only lets peers help the sender catch up.
    pub committed: Height,
}

/// View change without its proofs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declaration {
    /// Signed statement of the replica.
    pub vote: Vote,
    /// Last stable checkpoint.
    pub checkpoint: Subject,
    /// Prepared subjects above the checkpoint.
    pub prepared: Vec<Subject>,
}

/// Opening of a view by its primary. Everything proposed again follows from the declarations, so it is not included; of
/// their claims, only those that decide the selection carry proofs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewView {
    /// Signed statement: the view, and a digest of the declarations. Anyone can show the message to others.
    pub endorsement: Vote,
    /// A quorum of view changes. V in the paper.
    pub changes: Vec<Declaration>,
    /// Highest checkpoint in the view changes.
    pub checkpoint: Certificate,
    /// Proofs of the blocks proposed again, in ascending slots.
    pub prepared: Vec<Certificate>,
}

/// Message between replicas that run PBFT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PbftMessage {
    /// From the primary to all.
    PrePrepare(Box<PrePrepare>),
    Prepare(Vote),
    Commit(Vote),
    ViewChange(Box<ViewChange>),
    /// From the primary to all, and to replicas that missed it.
    NewView(Box<NewView>),
    /// To all: the sender's position. Replicas that are ahead send what it lacks.
    Status {
        view: View,
        /// Height up to which the sender has executed.
        committed: Height,
    },
    /// To a lagging replica: blocks that the sender executed. A claim that f+1 replicas make is true.
    Decided {
        /// The first digest is for the slot after this one.
        above: Height,
        /// Blocks of consecutive slots.
        digests: Vec<Digest>,
        /// Last stable checkpoint, if it is above `above`.
        checkpoint: Option<Box<Certificate>>,
    },
}

impl Message for PbftMessage {
    fn vote_to_sign(&mut self) -> Option<&mut Vote> {
        match self {
            PbftMessage::PrePrepare(message) => Some(&mut message.endorsement),
            PbftMessage::Prepare(vote) | PbftMessage::Commit(vote) => Some(vote),
            PbftMessage::ViewChange(message) => Some(&mut message.vote),
            PbftMessage::NewView(message) => Some(&mut message.endorsement),
            PbftMessage::Status { .. } | PbftMessage::Decided { .. } => None,
        }
    }

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

    fn view(&self) -> Option<View> {
        match self {
            PbftMessage::PrePrepare(message) => Some(message.view()),
            PbftMessage::Prepare(vote) | PbftMessage::Commit(vote) => Some(vote.subject.view),
            PbftMessage::ViewChange(change) => Some(change.view()),
            PbftMessage::NewView(new_view) => Some(new_view.view()),
            PbftMessage::Status { view, .. } => Some(*view),
            PbftMessage::Decided { .. } => None,
        }
    }

    fn describe(&self) -> String {
        match self {
            PbftMessage::PrePrepare(message) => {
                format!("PRE-PREPARE({:?}) of {}", message.view(), text::block(&message.block))
            }
            PbftMessage::Prepare(vote) | PbftMessage::Commit(vote) => text::vote(vote),
            PbftMessage::ViewChange(change) => {
                let above = change.checkpoint.subject.height;
                format!("VIEW-CHANGE({:?}): {} slots prepared above {above:?}", change.view(), change.prepared.len())
            }
            PbftMessage::NewView(new_view) => {
                format!("NEW-VIEW({:?}) from {}", new_view.view(), text::replica_names(new_view.voters()))
            }
            PbftMessage::Status { view, committed } => format!("STATUS: in {view:?}, executed up to {committed:?}"),
            PbftMessage::Decided { above, digests, .. } => format!("DECIDED: {} blocks above {above:?}", digests.len()),
        }
    }
}

impl PrePrepare {
    /// Returns the view for which the block is proposed.
    pub fn view(&self) -> View {
        self.endorsement.subject.view
    }

    /// Returns whether the parts are consistent. The block must not be empty: empty blocks only fill gaps in a new
    /// view.
    pub fn is_well_formed(&self) -> bool {
        let Vote { subject, voter, attachment, .. } = &self.endorsement;
        let block = &self.block;
        *subject == block.subject(Domain::Prepare)
            && *attachment == Attachment::None
            && *voter == block.author
            && block.is_unlinked()
            && *block == Block::of_slot(block.view, block.author, block.height, block.payload.clone()).into()
            && !block.payload.is_empty()
    }
}

impl ViewChange {
    /// Returns the view change without its proofs.
    pub fn declaration(&self) -> Declaration {
        Declaration {
            vote: self.vote.clone(),
            checkpoint: self.checkpoint.subject,
            prepared: self.prepared.iter().map(|certificate| certificate.subject).collect(),
        }
    }

    pub fn view(&self) -> View {
        self.vote.subject.view
    }
}

impl Declaration {
    /// Returns the digest that the signed statement covers.
    pub fn digest(checkpoint: &Subject, prepared: &[Subject]) -> Digest {
        let mut out = Encoder::with_capacity(64 * (prepared.len() + 1));
        checkpoint.encode(&mut out);
        encode_list(prepared, &mut out);
        let mut hasher = Hasher::new(*b"qW01");
        hasher.update(&out.finish());
        hasher.finish()
    }

    /// Returns whether the parts are consistent: the prepared subjects lie in the window above the checkpoint, in
    /// ascending slots, and are from earlier views.
    pub fn is_well_formed(&self, genesis: &Subject, window: u64) -> bool {
        let Declaration { vote, checkpoint, prepared } = self;
        let expected = Subject {
            domain: Domain::ViewChange,
            view: vote.subject.view,
            height: checkpoint.height,
            digest: Declaration::digest(checkpoint, prepared),
        };
        let is_checkpoint = checkpoint.domain == Domain::Checkpoint && checkpoint.view == View(0);
        let fits = |subject: &Subject| {
            subject.domain == Domain::Prepare
                && subject.view < vote.subject.view
                && subject.height > checkpoint.height
                && subject.height.0 - checkpoint.height.0 <= window
        };
        (checkpoint == genesis || is_checkpoint)
            && vote.subject == expected
            && vote.attachment == Attachment::None
            && prepared.iter().all(fits)
            && prepared.is_sorted_by(|one, other| one.height < other.height)
    }
}

impl NewView {
    /// Returns the view that the message opens.
    pub fn view(&self) -> View {
        self.endorsement.subject.view
    }

    /// Returns the digest that the signed statement covers.
    pub fn digest(changes: &[Declaration]) -> Digest {
        let mut hasher = Hasher::new(*b"qW02");
        for change in changes {
            hasher.update(&change.vote.voter.0.to_le_bytes());
            hasher.update(&change.vote.subject.digest.0);
        }
        hasher.finish()
    }

    /// Returns the approximate size of the proofs and declarations on the wire, in bytes.
    pub fn proof_bytes(&self) -> usize {
        let proofs = self.prepared.iter().chain([&self.checkpoint]).map(|certificate| certificate.proof.len());
        let declared: usize = self.changes.iter().map(|change| change.prepared.len() + 2).sum();
        proofs.sum::<usize>() + declared * size_of::<Subject>()
    }

    /// Returns the replicas whose view changes open the view.
    pub fn voters(&self) -> impl Iterator<Item = ReplicaId> {
        self.changes.iter().map(|change| change.vote.voter)
    }
}

impl Wire for PrePrepare {
    fn encode(&self, out: &mut Encoder) {
        self.endorsement.encode(out);
        self.block.encode(out);
        encode_list(&self.bundles, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(PrePrepare {
            endorsement: Wire::decode(input)?,
            block: Wire::decode(input)?,
            bundles: decode_list(input, "pre-prepared bundles", MAX_BLOCK_BUNDLES, 16)?,
        })
    }
}

impl Wire for ViewChange {
    fn encode(&self, out: &mut Encoder) {
        self.vote.encode(out);
        self.checkpoint.encode(out);
        encode_list(&self.prepared, out);
        self.committed.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ViewChange {
            vote: Wire::decode(input)?,
            checkpoint: Wire::decode(input)?,
            prepared: decode_list(input, "prepared slots", MAX_WINDOW, 49)?,
            committed: Wire::decode(input)?,
        })
    }
}

impl Wire for Declaration {
    fn encode(&self, out: &mut Encoder) {
        self.vote.encode(out);
        self.checkpoint.encode(out);
        encode_list(&self.prepared, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Declaration {
            vote: Wire::decode(input)?,
            checkpoint: Wire::decode(input)?,
            prepared: decode_list(input, "declared slots", MAX_WINDOW, 49)?,
        })
    }
}

impl Wire for NewView {
    fn encode(&self, out: &mut Encoder) {
        self.endorsement.encode(out);
        encode_list(&self.changes, out);
        self.checkpoint.encode(out);
        encode_list(&self.prepared, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(NewView {
            endorsement: Wire::decode(input)?,
            changes: decode_list(input, "view changes", MAX_REPLICAS, 49)?,
            checkpoint: Wire::decode(input)?,
            prepared: decode_list(input, "proven slots", MAX_WINDOW, 49)?,
        })
    }
}

impl Wire for PbftMessage {
    fn encode(&self, out: &mut Encoder) {
        match self {
            PbftMessage::PrePrepare(message) => {
                out.put_u8(1);
                message.encode(out);
            }
            PbftMessage::Prepare(vote) => {
                out.put_u8(2);
                vote.encode(out);
            }
            PbftMessage::Commit(vote) => {
                out.put_u8(3);
                vote.encode(out);
            }
            PbftMessage::ViewChange(message) => {
                out.put_u8(4);
                message.encode(out);
            }
            PbftMessage::NewView(message) => {
                out.put_u8(5);
                message.encode(out);
            }
            PbftMessage::Status { view, committed } => {
                out.put_u8(6);
                view.encode(out);
                committed.encode(out);
            }
            PbftMessage::Decided { above, digests, checkpoint } => {
                out.put_u8(7);
                above.encode(out);
                encode_list(digests, out);
                out.put_u8(checkpoint.is_some().into());
                if let Some(checkpoint) = checkpoint {
                    checkpoint.encode(out);
                }
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match input.get_u8("PBFT message")? {
            1 => PbftMessage::PrePrepare(Box::new(Wire::decode(input)?)),
            2 => PbftMessage::Prepare(Wire::decode(input)?),
            3 => PbftMessage::Commit(Wire::decode(input)?),
            4 => PbftMessage::ViewChange(Box::new(Wire::decode(input)?)),
            5 => PbftMessage::NewView(Box::new(Wire::decode(input)?)),
            6 => PbftMessage::Status { view: Wire::decode(input)?, committed: Wire::decode(input)? },
            7 => {
                let above = Wire::decode(input)?;
                let digests = decode_list(input, "decided slots", MAX_DECIDED, 32)?;
                let checkpoint: Option<Certificate> = Wire::decode(input)?;
                PbftMessage::Decided { above, digests, checkpoint: checkpoint.map(Box::new) }
            }
            _ => return Err(input.invalid("PBFT message", "no such kind")),
        })
    }
}
