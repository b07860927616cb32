//! The seam: what goes into a replica and what comes out.
//!
//! A replica is a function of its inputs. It asks for everything else by data: a clock, a disk, keys and a network are devices of
//! the host, which performs [`Action`]s and answers with [`Input`]s. The same replica therefore runs in a node, in the simulator
//! and under scripted attacks.

pub use crate::marks::{Drop, Mark};

use crate::frontier::Frontier;
use crate::journal::{RecallError, Record, Standing};
use crate::pool::{MAX_RELAYED_BUNDLES, Source};
use crate::transfer::Part;
use bytes::Bytes;
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::{
    Block, Bundle, Certificate, DecodeError, Decoder, Digest, Encoder, Height, Manifest, ReplicaId, Subject, View,
    Vote, Wire,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A question to a device, so that its answer finds the way back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Job(pub u64);

/// A record on its way to the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordId(pub u64);

/// The alarms of a replica; arming one again replaces it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The current view has lasted too long (or half so, when pending commands are relayed to the leader).
    View,
    /// Commands have waited long enough for company.
    Batch,
    /// Something missing has not arrived by itself.
    Fetch,
}

impl Timer {
    /// Every alarm.
    pub const ALL: [Timer; 3] = [Timer::View, Timer::Batch, Timer::Fetch];
}

/// What a host tells a replica.
///
/// Where clients are authenticated, no bundle gets in that its client did not sign, neither in [`Input::Submit`] nor in
/// [`Input::Receive`] ([`Envelope::bundles`]): that is the host's to check. A bundle's digest covers its authenticator, so what one
/// honest replica lets in, all do, and a block that names a forged bundle never becomes whole anywhere. Nor does a bundle get in that
/// was executed before, in [`Input::Submit`] or relayed ([`Replica::screen`](crate::Replica::screen)), as far as the host remembers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input<M> {
    /// What the journal holds, record by record in the order of their ids, before [`Input::Start`]. The committed blocks are to be
    /// executed again: [`Action::Commit`] comes with them.
    Recall {
        /// The name of the record.
        id: RecordId,
        /// What it says.
        record: Record,
    },
    /// The journal is not all that this replica has written: it is gone, or was cut by a repair. Before [`Input::Start`].
    Forgot,
    /// Begin, or go on where the journal ends.
    Start,
    /// Repeat in the journal what is needed besides the state at the committed height: a [`Record::Summary`] and what follows. What
    /// comes before it is not needed any more when that state is durable.
    Summarize,
    /// A message from a peer whom the channel authenticated, or one's own come back through the loopback.
    Receive {
        /// The sender.
        from: ReplicaId,
        /// What it says.
        message: Envelope<M>,
    },
    /// Commands from clients.
    Submit {
        /// The bundles.
        bundles: Vec<Bundle>,
        /// Where each of them came in; empty if that does not matter.
        sources: Vec<Source>,
    },
    /// A client's link is gone, over which bundles came in.
    Left(Source),
    /// An alarm rang.
    Timeout(Timer),
    /// The answer to [`Action::Verify`].
    Verdict {
        /// The question.
        job: Job,
        /// Whether everything in it is genuine.
        genuine: bool,
    },
    /// The answer to [`Action::Assemble`].
    Assembled {
        /// The question.
        job: Job,
        /// The certificate, or the voters whose votes are not genuine.
        result: Result<Certificate, Vec<ReplicaId>>,
    },
    /// The answer to [`Action::DigestState`].
    Executed {
        /// The height up to which all is executed.
        height: Height,
        /// What all replicas that executed the same have the same of. If the state is kept, the digest of its manifest.
        state: Digest,
        /// Whether the host keeps the state. It does so at the same heights on all replicas.
        kept: bool,
    },
    /// The host has the state of this checkpoint from an earlier life. Before [`Input::Start`].
    Kept {
        /// What a quorum vouches for.
        checkpoint: Box<Certificate>,
    },
    /// The answer to [`Action::ReadState`].
    StateRead {
        /// Who asked.
        to: ReplicaId,
        /// The height of the checkpoint.
        height: Height,
        /// Which part.
        part: Part,
        /// The part; none if it is not there.
        bytes: Option<Bytes>,
    },
    /// The answer to [`Action::ReceiveState`].
    Holds {
        /// The height of the checkpoint.
        height: Height,
        /// The chunks that the host has already, from its own state or an interrupted transfer.
        chunks: Vec<u32>,
    },
    /// The answer to [`Action::AdoptState`]; or, before [`Input::Start`], the host has adopted a state in its last life and the
    /// journal does not say so yet.
    Adopted {
        /// What a quorum vouches for.
        checkpoint: Box<Certificate>,
        /// The replica's part of the state.
        frontier: Frontier,
    },
}

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// One replica, possibly oneself.
    One(ReplicaId),
    /// Every replica, oneself included.
    All,
    /// Every other replica.
    Others,
}

/// What a replica asks of its host, to be performed in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action<M> {
    /// Send a message; to oneself it comes back as an input.
    Send {
        /// To whom.
        to: To,
        /// What.
        message: Envelope<M>,
        /// The record that must be durable before the message leaves.
        after: Option<RecordId>,
        /// Whether the host is to sign the vote that the message carries.
        sign: bool,
    },
    /// Make a record durable.
    Persist {
        /// Its name.
        id: RecordId,
        /// What is to be remembered.
        record: Record,
    },
    /// Check certificates and votes; answered by [`Input::Verdict`].
    Verify {
        /// The question.
        job: Job,
        /// Certificates to check.
        certificates: Vec<Certificate>,
        /// Single votes to check.
        votes: Vec<Vote>,
    },
    /// Check a quorum of votes in one go and make them a certificate; answered by [`Input::Assembled`].
    Assemble {
        /// The question.
        job: Job,
        /// What was voted on.
        subject: Subject,
        /// The votes, of distinct voters.
        votes: Vec<Vote>,
    },
    /// Set an alarm.
    Arm {
        /// Which.
        timer: Timer,
        /// From now.
        after: Duration,
    },
    /// Execute a block; heights come without gaps.
    Commit {
        /// The block.
        block: Arc<Block>,
        /// The bundles it refers to, in order.
        bundles: Vec<Bundle>,
    },
    /// Digest the state as it is when the last block of the frontier, which was committed just before, is executed and nothing after
    /// it; answered by [`Input::Executed`].
    DigestState {
        /// The replica's part of the state.
        frontier: Frontier,
    },
    /// A quorum vouches for a state that the host keeps: it may be asked for it, and need not keep any but this one and the one before.
    StateStable {
        /// What the quorum vouches for.
        checkpoint: Box<Certificate>,
    },
    /// Read a part of a state that is kept; answered by [`Input::StateRead`].
    ReadState {
        /// Who asks.
        to: ReplicaId,
        /// The height of the checkpoint.
        height: Height,
        /// Which part.
        part: Part,
    },
    /// Prepare to receive the state of a checkpoint, and none that was begun before; answered by [`Input::Holds`].
    ReceiveState {
        /// The height of the checkpoint.
        height: Height,
        /// What it consists of.
        manifest: Manifest,
    },
    /// Keep a chunk of the state that is being received.
    KeepChunk {
        /// The height of the checkpoint.
        height: Height,
        /// Its index.
        chunk: u32,
        /// What it is.
        bytes: Bytes,
    },
    /// All chunks are there: become that state; answered by [`Input::Adopted`] when it will outlive the process. From then on the host
    /// has nothing to do for a [`Action::Commit`] or [`Action::DigestState`] of this height or below.
    AdoptState {
        /// What a quorum vouches for.
        checkpoint: Box<Certificate>,
    },
    /// Somebody was proven to misbehave.
    Accuse(Box<Evidence>),
    /// Tell the client of this bundle, which came in [`Input::Submit`], that it was not taken.
    Refuse {
        /// The bundle's name.
        bundle: Digest,
        /// Why it was not taken.
        why: Refusal,
    },
    /// Treat the journal as whole once this record is durable: it bounds the views in which a replica whose journal was lost or
    /// cut may have spoken, so that its next life need not ask again.
    AcceptRepair {
        /// The record, persisted just before.
        after: RecordId,
    },
    /// Stop: give this replica no further input, and perform none of its further actions.
    Halt(Halt),
    /// Something worth telling happened. A host need not look at it.
    Mark(Mark),
}

/// Why a client's bundle was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The pool has no room for it.
    PoolFull,
    /// It was executed before.
    Executed,
    /// It has expired, or will before it can be ordered.
    Expired,
}

/// Why a replica must not go on: what it holds, or what others hold, is wrong beyond repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Halt {
    /// A record of the journal makes no sense.
    Unreadable {
        /// The record.
        id: RecordId,
        /// What is wrong with it.
        why: RecallError,
    },
    /// A quorum vouches for another state than this replica has.
    Diverged {
        /// The height of the checkpoint.
        height: Height,
    },
    /// A commit was due that contradicts what is committed: more than f replicas are faulty, or the protocol is wrong.
    Conflict {
        /// The height of the block that was to be committed.
        height: Height,
    },
}

/// Two different statements of one kind in one view (and for one slot, where there are slots), both signed by the same replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// One.
    pub first: Vote,
    /// The other.
    pub second: Vote,
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

/// What replicas say to each other: the protocol's own messages, and the shared parts' requests for what is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Envelope<M> {
    /// The protocol's.
    Protocol(M),
    /// Send me this block and up to `most - 1` of its ancestors above a height.
    FetchBlocks {
        /// The highest block wanted.
        digest: Digest,
        /// Ancestors at this height and below are known.
        above: Height,
        /// Most blocks in the answer.
        most: u16,
    },
    /// Blocks that were asked for, children before parents.
    Blocks(Vec<Arc<Block>>),
    /// Send me these bundles.
    FetchBundles {
        /// Which.
        digests: Vec<Digest>,
        /// What is committed up to this height is known: none of them belongs there.
        above: Height,
    },
    /// Bundles that were asked for.
    Bundles(Vec<Bundle>),
    /// Bundles that wait at a backup, for the leader to propose; the first one has waited longest.
    Relay(Vec<Bundle>),
    /// The answer to [`Envelope::Relay`]: the first of the bundles waits here too.
    Noted {
        /// That bundle.
        bundle: Digest,
    },
    /// How far are you?
    Ask {
        /// Tells the answers from those to earlier questions.
        nonce: u64,
    },
    /// The answer to [`Envelope::Ask`].
    Standing {
        /// That of the question.
        nonce: u64,
        /// What shows it.
        standing: Standing,
    },
    /// A vote on a checkpoint.
    Checkpoint(Vote),
    /// The blocks that were asked for, or the state, are gone; the state of this checkpoint can be had.
    Offer {
        /// What a quorum vouches for.
        checkpoint: Box<Certificate>,
    },
    /// Send me this part of the state of a checkpoint.
    FetchState {
        /// The height of the checkpoint.
        height: Height,
        /// Which part.
        part: Part,
    },
    /// A part of a state that was asked for.
    StatePart {
        /// The height of the checkpoint.
        height: Height,
        /// Which part.
        part: Part,
        /// The manifest's encoding, or the bytes of a chunk; nothing if the sender has not got that state, or no more.
        bytes: Bytes,
    },
}

impl<M: Message> Envelope<M> {
    /// The commands that it carries, in whatever kind of message: they are clients' words in a peer's mouth.
    pub fn bundles(&self) -> &[Bundle] {
        match self {
            Envelope::Protocol(message) => message.bundles(),
            Envelope::Bundles(bundles) | Envelope::Relay(bundles) => bundles,
            _ => &[],
        }
    }

    /// The vote in it that its sender has to sign.
    pub fn vote_to_sign(&mut self) -> Option<&mut Vote> {
        match self {
            Envelope::Protocol(message) => message.vote_to_sign(),
            Envelope::Checkpoint(vote) => Some(vote),
            _ => None,
        }
    }
}

/// Most blocks in one answer to a fetch.
pub const MAX_FETCHED_BLOCKS: usize = 64;
/// Most bundles in one request or answer.
pub const MAX_FETCHED_BUNDLES: usize = 4096;
/// Most bytes of a part of a state.
pub const MAX_PART_BYTES: usize = 1 << 20;

impl<M: Wire> Wire for Envelope<M> {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Envelope::Protocol(message) => {
                out.put_u8(1);
                message.encode(out);
            }
            Envelope::FetchBlocks { digest, above, most } => {
                out.put_u8(2);
                digest.encode(out);
                above.encode(out);
                out.put_u16(*most);
            }
            Envelope::Blocks(blocks) => {
                out.put_u8(3);
                encode_list(blocks, out);
            }
            Envelope::FetchBundles { digests, above } => {
                out.put_u8(4);
                encode_list(digests, out);
                above.encode(out);
            }
            Envelope::Bundles(bundles) => {
                out.put_u8(5);
                encode_list(bundles, out);
            }
            Envelope::Ask { nonce } => {
                out.put_u8(6);
                out.put_u64(*nonce);
            }
            Envelope::Standing { nonce, standing } => {
                out.put_u8(7);
                out.put_u64(*nonce);
                standing.encode(out);
            }
            Envelope::Checkpoint(vote) => {
                out.put_u8(8);
                vote.encode(out);
            }
            Envelope::Offer { checkpoint } => {
                out.put_u8(9);
                checkpoint.encode(out);
            }
            Envelope::FetchState { height, part } => {
                out.put_u8(10);
                height.encode(out);
                out.put_u32(*part);
            }
            Envelope::StatePart { height, part, bytes } => {
                out.put_u8(11);
                height.encode(out);
                out.put_u32(*part);
                out.put_bytes(bytes);
            }
            Envelope::Relay(bundles) => {
                out.put_u8(12);
                encode_list(bundles, out);
            }
            Envelope::Noted { bundle } => {
                out.put_u8(13);
                bundle.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        match input.get_u8("envelope")? {
            1 => Ok(Envelope::Protocol(M::decode(input)?)),
            2 => Ok(Envelope::FetchBlocks {
                digest: Digest::decode(input)?,
                above: Height::decode(input)?,
                most: input.get_u16("most blocks")?,
            }),
            3 => Ok(Envelope::Blocks(decode_list(input, "blocks", MAX_FETCHED_BLOCKS, 1)?)),
            4 => Ok(Envelope::FetchBundles {
                digests: decode_list(input, "wanted bundles", MAX_FETCHED_BUNDLES, 32)?,
                above: Wire::decode(input)?,
            }),
            5 => Ok(Envelope::Bundles(decode_list(input, "bundles", MAX_FETCHED_BUNDLES, 4)?)),
            6 => Ok(Envelope::Ask { nonce: input.get_u64("nonce")? }),
            7 => Ok(Envelope::Standing { nonce: input.get_u64("nonce")?, standing: Wire::decode(input)? }),
            8 => Ok(Envelope::Checkpoint(Wire::decode(input)?)),
            9 => Ok(Envelope::Offer { checkpoint: Box::new(Wire::decode(input)?) }),
            10 => Ok(Envelope::FetchState { height: Wire::decode(input)?, part: input.get_u32("part of a state")? }),
            11 => Ok(Envelope::StatePart {
                height: Wire::decode(input)?,
                part: input.get_u32("part of a state")?,
                bytes: input.get_bytes("part of a state", MAX_PART_BYTES)?,
            }),
            12 => Ok(Envelope::Relay(decode_list(input, "relayed bundles", MAX_RELAYED_BUNDLES, 4)?)),
            13 => Ok(Envelope::Noted { bundle: Digest::decode(input)? }),
            _ => Err(input.invalid("envelope", "no such kind")),
        }
    }
}

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

/// A protocol's message set.
pub trait Message: Wire + Clone + fmt::Debug + Send + 'static {
    /// The vote in it that its sender has to sign.
    fn vote_to_sign(&mut self) -> Option<&mut Vote>;
    /// What it is for.
    fn purpose(&self) -> Purpose;
    /// The block that it proposes, and the commands that go with it.
    fn proposed(&self) -> Option<(&Arc<Block>, &[Bundle])>;
    /// The certificates that it shows. Those inside of statements that others signed are not among them.
    fn certificates(&self) -> Vec<(Role, &Certificate)>;
    /// The view that it belongs to; none if it belongs to whichever its sender is in.
    fn view(&self) -> Option<View>;
    /// What it says in a line, for transcripts.
    fn describe(&self) -> String;

    /// Whether it proposes a block.
    fn is_proposal(&self) -> bool {
        self.purpose() == Purpose::Proposal
    }

    /// The commands that it carries.
    fn bundles(&self) -> &[Bundle] {
        self.proposed().map_or(&[], |(_, bundles)| bundles)
    }
}
