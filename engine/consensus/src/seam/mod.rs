//! Inputs and actions of a replica.
//!
//! A replica is a function of its inputs. The clock, the disk, the keys and the network are devices of the host, which
//! performs [`Action`]s and answers with [`Input`]s. The same replica therefore runs in a node, in the simulator and
//! under scripted attacks.

pub mod encoding;
pub mod marks;
mod message;
pub mod text;

pub use crate::drops::Drop;
pub use crate::ids::{Job, RecordId};
pub use crate::seam::marks::Mark;
pub use crate::seam::message::{Message, Purpose, Role};

use crate::data::batches::{Batch, Cover};
use crate::data::pool::{MAX_RELAYED_BUNDLES, Source};
use crate::ids::Part;
use crate::recovery::frontier::Frontier;
use crate::recovery::journal::{RecallError, Record, Standing};
use bytes::Bytes;
use quorate_types::stages::MessageKind;
use quorate_types::wire;
use quorate_types::{Block, Bundle, Certificate, Digest, Height, Lane, Manifest, ReplicaId, Subject, Vote};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Timer of a replica. Arming it again replaces the earlier deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The current view timed out, or half of its timeout has passed and pending commands are relayed to the leader.
    View,
    /// Commands have waited long enough for a fuller block.
    Batch,
    /// A retry of a fetch is due.
    Fetch,
    /// Late votes have been awaited long enough.
    Votes,
}

impl Timer {
    pub const ALL: [Timer; 4] = [Timer::View, Timer::Batch, Timer::Fetch, Timer::Votes];
}

/// Input that a host gives to a replica.
///
/// If clients are authenticated, the host must reject every bundle that its client did not sign, both in
/// [`Input::Submit`] and in [`Input::Receive`] ([`Envelope::bundles`]). A bundle's digest covers its authenticator, so
/// either all honest replicas accept a bundle or none does, and a block that names a forged bundle never becomes
/// complete anywhere. In [`Input::Submit`], and in bundles that peers relay or disseminate
/// ([`Replica::screen`](crate::Replica::screen)), the host must also reject bundles that were executed before, as far
/// as it remembers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input<M> {
    /// One record of the journal. Records come in the order of their ids and before [`Input::Start`]. Committed blocks
    /// must be executed again: each one that is recalled produces an [`Action::Commit`].
    Recall {
        id: RecordId,
        record: Record,
    },
    /// The journal is incomplete, because it is gone or a repair truncated it. Comes before [`Input::Start`].
    Forgot,
    /// Start, or resume where the journal ends.
    Start,
    /// Write a summary to the journal: a [`Record::Summary`] and the records that complete it. Everything before it can
    /// be removed once the state at the committed height is durable.
    Summarize,
    /// A message from a peer that the channel authenticated, or from this replica itself through the loopback.
    Receive {
        from: ReplicaId,
        message: Envelope<M>,
    },
    Submit {
        bundles: Vec<Bundle>,
        /// Link on which each bundle arrived; empty if unknown.
        sources: Vec<Source>,
    },
    /// A client link on which bundles arrived has closed.
    Left(Source),
    /// The replica's wall clock. Comes before [`Input::Start`], and again when the clock was corrected.
    Clock {
        /// Wall clock at [`Time`](quorate_types::Time) 0, in milliseconds since the Unix epoch.
        origin_ms: u64,
    },
    Timeout(Timer),
    /// Answer to [`Action::Verify`].
    Verdict {
        job: Job,
        /// Whether all certificates and votes are valid.
        genuine: bool,
    },
    /// Answer to [`Action::Assemble`].
    Assembled {
        job: Job,
        /// The certificate, or the voters with invalid votes.
        result: Result<Certificate, Vec<ReplicaId>>,
    },
    /// Answer to [`Action::DigestState`].
    Executed {
        /// Height up to which all blocks are executed.
        height: Height,
        /// Digest of the state, equal on all replicas that executed the same blocks. If the state is kept, this is the
        /// digest of its manifest.
        state: Digest,
        /// Whether the host keeps the state. Hosts keep states at the same heights on all replicas.
        kept: bool,
    },
    /// The host kept the state of this checkpoint across a restart. Comes before [`Input::Start`].
    Kept {
        checkpoint: Box<Certificate>,
    },
    /// Answer to [`Action::ReadState`].
    StateRead {
        /// Replica that requested the part.
        to: ReplicaId,
        /// Height of the checkpoint.
        height: Height,
        part: Part,
        /// Contents; `None` if the host no longer has the part.
        bytes: Option<Bytes>,
    },
    /// Answer to [`Action::ReceiveState`].
    Holds {
        /// Height of the checkpoint.
        height: Height,
        /// Indices of the chunks that the host already has, from its own state or an interrupted transfer.
        chunks: Vec<u32>,
    },
    /// Answer to [`Action::AdoptState`]. If it comes before [`Input::Start`], the host adopted a state before the
    /// restart and the journal does not record that yet.
    Adopted {
        checkpoint: Box<Certificate>,
        /// The replica's part of the state.
        frontier: Frontier,
    },
}

/// Recipients of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// One replica, possibly the sender.
    One(ReplicaId),
    /// Every replica, including the sender.
    All,
    /// Every replica except the sender.
    Others,
}

/// Action for the host, to be performed in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action<M> {
    /// Send a message. A message to the sender itself comes back as an input.
    Send {
        to: To,
        message: Envelope<M>,
        /// Record that must be durable before the message leaves.
        after: Option<RecordId>,
        /// Whether the host must sign the vote in the message.
        sign: bool,
    },
    /// Make a record durable.
    Persist { id: RecordId, record: Record },
    /// Verify certificates and votes; answered by [`Input::Verdict`].
    Verify { job: Job, certificates: Vec<Certificate>, votes: Vec<Vote> },
    /// Verify a quorum of votes in one batch and form a certificate; answered by [`Input::Assembled`].
    Assemble {
        job: Job,
        subject: Subject,
        /// Votes of distinct voters.
        votes: Vec<Vote>,
    },
    Arm {
        timer: Timer,
        /// Delay from now.
        after: Duration,
    },
    /// Execute a block; heights are consecutive.
    Commit {
        block: Arc<Block>,
        /// Bundles that the block refers to, in order.
        bundles: Vec<Bundle>,
    },
    /// Compute the digest of the state right after the frontier's last block, which was committed just before; answered
    /// by [`Input::Executed`].
    DigestState {
        /// The replica's part of the state.
        frontier: Frontier,
    },
    /// A quorum certified a state that the host keeps. Peers may request it; the host needs to keep only this state and
    /// its predecessor.
    StateStable { checkpoint: Box<Certificate> },
    /// Read a part of a kept state; answered by [`Input::StateRead`].
    ReadState {
        /// Replica that requested the part.
        to: ReplicaId,
        /// Height of the checkpoint.
        height: Height,
        part: Part,
    },
    /// Prepare to receive the state of a checkpoint, and abandon any earlier transfer; answered by [`Input::Holds`].
    ReceiveState {
        /// Height of the checkpoint.
        height: Height,
        manifest: Manifest,
    },
    /// Store a chunk of the state being received.
    KeepChunk {
        /// Height of the checkpoint.
        height: Height,
        /// Index of the chunk.
        chunk: u32,
        bytes: Bytes,
    },
    /// Switch to the received state, whose chunks are complete; answered by [`Input::Adopted`] once the switch survives
    /// a crash. From then on the host ignores every [`Action::Commit`] and [`Action::DigestState`] at or below this
    /// height.
    AdoptState { checkpoint: Box<Certificate> },
    /// A replica was proven to misbehave.
    Accuse(Box<Evidence>),
    /// Tell the client that its bundle from [`Input::Submit`] was refused.
    Refuse { bundle: Digest, why: Refusal },
    /// Treat the journal as complete once this record is durable. The record bounds the views in which a replica whose
    /// journal was lost or truncated may have voted, so after its next start the replica need not ask again.
    AcceptRepair {
        /// Record persisted just before.
        after: RecordId,
    },
    /// Stop the replica: pass it no further input, and perform none of its remaining actions.
    Halt(Halt),
    /// An event worth observing; a host may ignore it.
    Mark(Mark),
}

/// Reason why a client's bundle was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    PoolFull,
    /// The bundle was executed before.
    Executed,
    /// The bundle has expired, or will expire before it can be ordered.
    Expired,
}

/// Reason why a replica must stop: its data or that of other replicas is wrong beyond repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Halt {
    /// A record of the journal is invalid.
    Unreadable { id: RecordId, why: RecallError },
    /// A quorum certified a different state than this replica has.
    Diverged {
        /// Height of the checkpoint.
        height: Height,
    },
    /// A block to commit contradicts the committed ones: more than f replicas are faulty, or the protocol is wrong.
    Conflict {
        /// Height of the block to commit.
        height: Height,
    },
}

/// Proof of equivocation: two different statements of one kind in one view (and for one slot, in protocols with slots),
/// both signed by the same replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    pub first: Vote,
    pub second: Vote,
}

impl Evidence {
    /// Describes the contradiction if the statements prove to nobody else who made them.
    pub fn hearsay(&self) -> String {
        format!("hearsay, as the reporting replica could have made both MACs itself: {self}")
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Evidence { first, second } = self;
        let Subject { domain, view, digest, height } = &first.subject;
        let other = &second.subject;
        write!(f, "replica {} signed two {domain:?} statements in view {view}: ", first.voter)?;
        write!(f, "{digest:?} at height {height} and {:?} at height {}", other.digest, other.height)
    }
}

/// Message between replicas: the protocol's own, or a request or answer of the shared parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Envelope<M> {
    Protocol(M),
    /// Request for a block and up to `most - 1` of its ancestors above a height.
    FetchBlocks {
        /// Highest requested block.
        digest: Digest,
        /// Height at and below which the sender already has the ancestors.
        above: Height,
        /// Maximum number of blocks in the answer.
        most: u16,
    },
    /// Requested blocks, children before parents.
    Blocks(Vec<Arc<Block>>),
    FetchBundles {
        digests: Vec<Digest>,
        /// The sender knows everything committed up to this height, and none of the bundles belongs there.
        above: Height,
    },
    Bundles(Vec<Bundle>),
    /// Bundles that wait at a backup, for the leader to propose. The first one has waited longest.
    Relay(Vec<Bundle>),
    /// Bundles that the sender's clients have just sent to it alone
    /// ([`Dissemination::Replicas`](crate::config::Dissemination::Replicas)).
    Spread(Vec<Bundle>),
    /// List of bundles that the sender has disseminated, for the others to acknowledge
    /// ([`Dissemination::ReplicasCertified`](crate::config::Dissemination::ReplicasCertified)).
    Batch(Arc<Batch>),
    /// Answer to [`Envelope::Batch`]: the sender has journaled all bundles of the batch and keeps them.
    Stored(Vote),
    /// A quorum keeps the bundles of this batch of the sender's.
    Certified(Box<Certificate>),
    /// Certified batches whose bundles the sender proposes or relays next.
    Covers(Vec<Cover>),
    /// Answer to [`Envelope::Relay`]: the first of the bundles is pending here too.
    Noted {
        bundle: Digest,
    },
    /// The sender lacks a bundle of a final block, and has asked all others for it.
    Absent(Vote),
    /// A quorum lacks a bundle of a final block, so the block is executed without it.
    Void(Box<Certificate>),
    /// Request for the recipient's standing. A replica that lost its journal also sends it to itself, to learn when the
    /// journal holds what it needs to vote after a restart.
    Ask {
        /// Number that answers to this question repeat.
        nonce: u64,
    },
    /// Answer to [`Envelope::Ask`].
    Standing {
        /// Nonce of the question.
        nonce: u64,
        standing: Standing,
    },
    Checkpoint(Vote),
    /// The requested blocks or state are gone, but the state of this checkpoint is available.
    Offer {
        checkpoint: Box<Certificate>,
    },
    /// Request for a part of the state of a checkpoint.
    FetchState {
        /// Height of the checkpoint.
        height: Height,
        part: Part,
    },
    /// Requested part of a state.
    StatePart {
        /// Height of the checkpoint.
        height: Height,
        part: Part,
        /// Encoded manifest or bytes of a chunk. Empty if the sender does not have that state.
        bytes: Bytes,
    },
}

impl<M: Message> Envelope<M> {
    /// Returns the transport lane of the message. A message with commands, blocks or state, or with a list of commands,
    /// is bulk; a proposal is not, even if it carries commands. Only votes on blocks may be lost: protocols need any
    /// quorum of them, in any order, whereas the loss of a vote on a view or a checkpoint costs a timeout or an
    /// interval.
    pub fn lane(&self) -> Lane {
        match self {
            Envelope::Spread(_)
            | Envelope::Bundles(_)
            | Envelope::Relay(_)
            | Envelope::Blocks(_)
            | Envelope::StatePart { .. } => Lane::Bulk,
            // A batch is acknowledged once its bundles are there, so it is useless before them.
            Envelope::Batch(_) => Lane::Bulk,
            _ => match self.kind() {
                MessageKind::Vote | MessageKind::Prepare | MessageKind::Commit => Lane::Vote,
                _ => Lane::Ordinary,
            },
        }
    }

    /// Returns the kind of the message with respect to its costs.
    pub fn kind(&self) -> MessageKind {
        match self {
            Envelope::Protocol(message) => message.kind(),
            Envelope::Checkpoint(_) => MessageKind::Checkpoint,
            Envelope::Bundles(_)
            | Envelope::Relay(_)
            | Envelope::Spread(_)
            | Envelope::Batch(_)
            | Envelope::Stored(_)
            | Envelope::Certified(_)
            | Envelope::Covers(_)
            | Envelope::Noted { .. } => MessageKind::Bundles,
            Envelope::FetchBlocks { .. }
            | Envelope::Blocks(_)
            | Envelope::FetchBundles { .. }
            | Envelope::Ask { .. }
            | Envelope::Standing { .. }
            | Envelope::Offer { .. }
            | Envelope::Absent(_)
            | Envelope::Void(_)
            | Envelope::FetchState { .. }
            | Envelope::StatePart { .. } => MessageKind::Repair,
        }
    }

    /// Returns the client commands in a message of any kind. The message's sender is not their author, so they must be
    /// authenticated.
    pub fn bundles(&self) -> &[Bundle] {
        match self {
            Envelope::Protocol(message) => message.bundles(),
            Envelope::Bundles(bundles) | Envelope::Relay(bundles) | Envelope::Spread(bundles) => bundles,
            _ => &[],
        }
    }

    /// Removes the client commands that fail authentication here. If clients authenticate bundles to each replica
    /// separately, an honest sender may have accepted bundles that this replica must not accept.
    pub fn retain_bundles(&mut self, is_genuine: impl FnMut(&Bundle) -> bool) {
        match self {
            Envelope::Protocol(message) => message.retain_bundles(is_genuine),
            Envelope::Bundles(bundles) | Envelope::Relay(bundles) | Envelope::Spread(bundles) => {
                bundles.retain(is_genuine);
            }
            _ => {}
        }
    }

    /// Returns the vote that the sender must sign.
    pub fn vote_to_sign(&mut self) -> Option<&mut Vote> {
        match self {
            Envelope::Protocol(message) => message.vote_to_sign(),
            Envelope::Checkpoint(vote) | Envelope::Stored(vote) | Envelope::Absent(vote) => Some(vote),
            _ => None,
        }
    }
}

/// Maximum number of blocks in one answer to a fetch.
pub const MAX_FETCHED_BLOCKS: usize = 64;
/// Maximum number of bundles in one request or answer.
pub const MAX_FETCHED_BUNDLES: usize = 4096;
/// Maximum number of bundles in one message that spreads them.
pub const MAX_SPREAD_BUNDLES: usize = 4096;
/// Maximum bytes of a dissemination message with more than one bundle. It is small because votes on the same link wait
/// behind the message.
pub const MAX_SPREAD_BYTES: usize = 1 << 20;
/// Maximum number of certified batches in one message that shows them.
pub const MAX_COVERS: usize = 1024;
/// Minimum bytes of a cover: its batch's spreader, number and count, and the subject of its certificate.
const MIN_COVER_BYTES: usize = 2 + 8 + 4 + 49;
/// Maximum size of a part of a state.
pub const MAX_PART_BYTES: usize = 1 << 20;

wire! {
    enum Envelope<M> as "envelope" {
        1 = Protocol(message),
        2 = FetchBlocks { digest, above, most: u16["most blocks"] },
        3 = Blocks(blocks: list["blocks", MAX_FETCHED_BLOCKS, 1]),
        4 = FetchBundles { digests: list["wanted bundles", MAX_FETCHED_BUNDLES, 32], above },
        5 = Bundles(bundles: list["bundles", MAX_FETCHED_BUNDLES, 4]),
        6 = Ask { nonce: u64["nonce"] },
        7 = Standing { nonce: u64["nonce"], standing },
        8 = Checkpoint(vote),
        9 = Offer { checkpoint },
        10 = FetchState { height, part: u32["part of a state"] },
        11 = StatePart { height, part: u32["part of a state"], bytes: bytes["part of a state", MAX_PART_BYTES] },
        12 = Relay(bundles: list["relayed bundles", MAX_RELAYED_BUNDLES, 4]),
        13 = Noted { bundle },
        14 = Spread(bundles: list["spread bundles", MAX_SPREAD_BUNDLES, 4]),
        15 = Batch(batch),
        16 = Stored(vote),
        17 = Certified(certificate),
        18 = Covers(covers: list["covers", MAX_COVERS, MIN_COVER_BYTES]),
        19 = Absent(vote),
        20 = Void(certificate),
    }
}
