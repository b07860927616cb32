//! Messages of PBFT.
//!
//! PREPARE and CHECKPOINT are signed, because a quorum of them is shown to others. A COMMIT is never shown to others,
//! so it is not signed: the channel authenticates its sender. In the variant for MACs PREPARE is not shown either, so
//! MACs may replace its signature.

use crate::seam::text;
use crate::seam::{Message, Purpose, Role};
use bytes::Bytes;
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::limits::{MAX_BLOCK_BUNDLES, MAX_REPLICAS};
use quorate_types::stages::MessageKind;
use quorate_types::wire;
use quorate_types::{
    Attachment, Block, Bundle, Certificate, DecodeError, Decoder, Digest, Domain, Encoder, Hasher, Height, ReplicaId,
    Signers, Subject, View, Vote, Wire, tags,
};
use std::sync::Arc;

use crate::config::MAX_WINDOW;

/// Maximum number of blocks for which a replica vouches in one slot: the block carried over by the last NEW-VIEW, and
/// the block for which it sent PREPARE since. M in the paper, which forgets the oldest one; see
/// [`claims`](super::claims).
pub const MAX_VOTES_PER_SLOT: usize = 2;

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
    /// ascending slots. P in the paper. [Bare](bare) if the votes convince only their receivers.
    pub prepared: Vec<Certificate>,
    /// For each slot above the checkpoint, the blocks for which the sender vouches, each for a different view; in
    /// ascending slots and views. Q in the paper. Empty if `prepared` contains proofs.
    pub voted: Vec<Subject>,
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
    /// Blocks above the checkpoint for which the sender vouches; see [`ViewChange::voted`].
    pub voted: Vec<Subject>,
}

/// Opening of a view by its primary. The declarations determine everything that is proposed again, so it is not
/// included; of their claims, only those that decide the selection have proofs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewView {
    /// Signed statement: the view, and a digest of the declarations. Anybody can show the message to others.
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
    /// To all: the sender's position. Replicas that are ahead send the missing data.
    Status {
        view: View,
        /// Height up to which the sender has executed.
        committed: Height,
    },
    /// To a lagging replica: blocks executed by the sender. A claim made by f+1 replicas is true.
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

    fn kind(&self) -> MessageKind {
        match self {
            PbftMessage::PrePrepare(_) => MessageKind::PrePrepare,
            PbftMessage::Prepare(_) => MessageKind::Prepare,
            PbftMessage::Commit(_) => MessageKind::Commit,
            PbftMessage::ViewChange(_) => MessageKind::ViewChange,
            PbftMessage::NewView(_) => MessageKind::NewView,
            PbftMessage::Status { .. } | PbftMessage::Decided { .. } => MessageKind::Report,
        }
    }

    fn proposed(&self) -> Option<(&Arc<Block>, &[Bundle])> {
        match self {
            PbftMessage::PrePrepare(message) => Some((&message.block, &message.bundles)),
            _ => None,
        }
    }

    fn retain_bundles(&mut self, is_genuine: impl FnMut(&Bundle) -> bool) {
        if let PbftMessage::PrePrepare(message) = self {
            message.bundles.retain(is_genuine);
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

/// Returns the block as created by a primary, with the contents of this one.
fn made_by_primary(block: &Block) -> Block {
    let made = Block::of_slot(block.view, block.author, block.height, block.payload.clone(), block.time_ms);
    if block.covers().is_empty() { made } else { made.with_covers(block.covers().clone()) }
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
            && **block == made_by_primary(block)
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
            voted: self.voted.clone(),
        }
    }

    pub fn view(&self) -> View {
        self.vote.subject.view
    }
}

impl Declaration {
    /// Returns the digest that the signed statement covers.
    pub fn digest(checkpoint: &Subject, prepared: &[Subject], voted: &[Subject]) -> Digest {
        let mut out = Encoder::with_capacity(64 * (prepared.len() + voted.len() + 1));
        checkpoint.encode(&mut out);
        encode_list(prepared, &mut out);
        if !voted.is_empty() {
            encode_list(voted, &mut out);
        }
        let mut hasher = Hasher::new(tags::VIEW_CHANGE);
        hasher.update(&out.finish());
        hasher.finish()
    }

    /// Returns whether the parts are consistent: the subjects are in the window above the checkpoint, in ascending
    /// slots, and from earlier views.
    pub fn is_well_formed(&self, genesis: &Subject, window: u64) -> bool {
        let Declaration { vote, checkpoint, prepared, voted } = self;
        let expected = Subject {
            domain: Domain::ViewChange,
            view: vote.subject.view,
            height: checkpoint.height,
            digest: Declaration::digest(checkpoint, prepared, voted),
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
            && prepared.iter().chain(voted).all(fits)
            && prepared.is_sorted_by(|one, other| one.height < other.height)
            && voted.is_sorted_by(|one, other| (one.height, one.view) < (other.height, other.view))
    }
}

/// Returns the claim that a quorum sent PREPARE, without the votes, which convince only their receivers.
pub fn bare(subject: Subject) -> Certificate {
    Certificate { subject, signers: Signers::empty(), attachments: Vec::new(), proof: Bytes::new() }
}

impl NewView {
    /// Returns the view that the message opens.
    pub fn view(&self) -> View {
        self.endorsement.subject.view
    }

    /// Returns the digest that the signed statement covers.
    pub fn digest(changes: &[Declaration]) -> Digest {
        let mut hasher = Hasher::new(tags::NEW_VIEW);
        for change in changes {
            hasher.update(&change.vote.voter.0.to_le_bytes());
            hasher.update(&change.vote.subject.digest.0);
        }
        hasher.finish()
    }

    /// Returns the approximate size of the proofs and declarations on the wire, in bytes.
    pub fn proof_bytes(&self) -> usize {
        let proofs = self.prepared.iter().chain([&self.checkpoint]).map(|certificate| certificate.proof.len());
        let declared: usize = self.changes.iter().map(|change| change.prepared.len() + change.voted.len() + 2).sum();
        proofs.sum::<usize>() + declared * size_of::<Subject>()
    }

    /// Returns the replicas whose view changes open the view.
    pub fn voters(&self) -> impl Iterator<Item = ReplicaId> {
        self.changes.iter().map(|change| change.vote.voter)
    }
}

wire! {
    struct PrePrepare { endorsement, block, bundles: list["pre-prepared bundles", MAX_BLOCK_BUNDLES, 16] }
}

impl ViewChange {
    fn encode(&self, form: Form, out: &mut Encoder) {
        self.vote.encode(out);
        self.checkpoint.encode(out);
        encode_list(&self.prepared, out);
        form.encode(&self.voted, out);
        self.committed.encode(out);
    }

    fn decode(form: Form, input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ViewChange {
            vote: Wire::decode(input)?,
            checkpoint: Wire::decode(input)?,
            prepared: decode_list(input, "prepared slots", MAX_WINDOW, 49)?,
            voted: form.decode(input)?,
            committed: Wire::decode(input)?,
        })
    }
}

impl Declaration {
    fn encode(&self, form: Form, out: &mut Encoder) {
        self.vote.encode(out);
        self.checkpoint.encode(out);
        encode_list(&self.prepared, out);
        form.encode(&self.voted, out);
    }

    fn decode(form: Form, input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Declaration {
            vote: Wire::decode(input)?,
            checkpoint: Wire::decode(input)?,
            prepared: decode_list(input, "declared slots", MAX_WINDOW, 49)?,
            voted: form.decode(input)?,
        })
    }
}

impl NewView {
    fn encode(&self, form: Form, out: &mut Encoder) {
        self.endorsement.encode(out);
        out.put_count(self.changes.len());
        self.changes.iter().for_each(|change| change.encode(form, out));
        self.checkpoint.encode(out);
        encode_list(&self.prepared, out);
    }

    fn decode(form: Form, input: &mut Decoder) -> Result<Self, DecodeError> {
        let endorsement = Wire::decode(input)?;
        let changes = input.get_count("view changes", MAX_REPLICAS, 49)?;
        Ok(NewView {
            endorsement,
            changes: (0..changes).map(|_| Declaration::decode(form, input)).collect::<Result<_, _>>()?,
            checkpoint: Wire::decode(input)?,
            prepared: decode_list(input, "proven slots", MAX_WINDOW, 49)?,
        })
    }
}

/// Encoding of a view change on the wire. The first is as long as it was before the second was introduced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// No [`ViewChange::voted`].
    Plain,
    WithVotes,
}

impl Form {
    /// Returns the shortest encoding of view changes with these votes.
    fn of<'a>(mut voted: impl Iterator<Item = &'a Vec<Subject>>) -> Form {
        if voted.all(Vec::is_empty) { Form::Plain } else { Form::WithVotes }
    }

    fn encode(self, voted: &[Subject], out: &mut Encoder) {
        if self == Form::WithVotes {
            encode_list(voted, out);
        }
    }

    fn decode(self, input: &mut Decoder) -> Result<Vec<Subject>, DecodeError> {
        match self {
            Form::Plain => Ok(Vec::new()),
            Form::WithVotes => decode_list(input, "votes on slots", MAX_WINDOW * MAX_VOTES_PER_SLOT, 49),
        }
    }
}

wire! {
    enum PbftMessage as "PBFT message" {
        1 = PrePrepare(message),
        2 = Prepare(vote),
        3 = Commit(vote),
        6 = Status { view, committed },
        7 = Decided { above, digests: list["decided slots", MAX_DECIDED, 32], checkpoint },
    } by hand |out, input| {
        PbftMessage::ViewChange(message) => {
            let form = Form::of([&message.voted].into_iter());
            out.put_u8(if form == Form::Plain { 4 } else { 8 });
            message.encode(form, out);
        }
        PbftMessage::NewView(message) => {
            let form = Form::of(message.changes.iter().map(|change| &change.voted));
            out.put_u8(if form == Form::Plain { 5 } else { 9 });
            message.encode(form, out);
        }
    } {
        kind @ (4 | 8) => {
            let form = if kind == 4 { Form::Plain } else { Form::WithVotes };
            let message = ViewChange::decode(form, input)?;
            if Form::of([&message.voted].into_iter()) != form {
                return Err(input.invalid("view change", "a shorter form exists"));
            }
            Ok(PbftMessage::ViewChange(Box::new(message)))
        }
        kind @ (5 | 9) => {
            let form = if kind == 5 { Form::Plain } else { Form::WithVotes };
            let message = NewView::decode(form, input)?;
            if Form::of(message.changes.iter().map(|change| &change.voted)) != form {
                return Err(input.invalid("new view", "a shorter form exists"));
            }
            Ok(PbftMessage::NewView(Box::new(message)))
        }
    }
}
