//! Records of a replica's journal, and recovery from them.
//!
//! Every statement is preceded by the [`Record`]s that it relies on. Ids ascend, and a message waits for the record of
//! its own statement, so all earlier records are durable too. The host restarts a replica with its records in the order
//! of their ids, as [`Input::Recall`](crate::seam::Input::Recall), followed by
//! [`Input::Start`](crate::seam::Input::Start). The replica then has its committed blocks executed again, and continues
//! where it stopped. `docs/adr/012-what-the-journal-holds.md` explains why this is sufficient.

use crate::config::MAX_WINDOW;
use crate::voting::safety::Promise;
use bytes::Bytes;
use quorate_types::limits::{MAX_BLOCK_BUNDLES, MAX_BUNDLE_BYTES, MAX_FRAME_BYTES, MAX_REPLICAS};
use quorate_types::wire;
use quorate_types::{
    Block, Bundle, Certificate, DecodeError, Decoder, Digest, Encoder, Height, ReplicaId, View, Vote, Wire,
};
use std::sync::Arc;

/// Maximum bytes of bundles in a record with more than one bundle.
pub const BUNDLES_RECORD_BYTES: usize = 1 << 20;

/// Entry of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// Promise that a statement makes and that restricts the replica's later votes.
    Promise(Promise),
    /// Bundles of the next block. They are journaled because a vote for a block states that the voter holds them.
    Bundles(Vec<Bundle>),
    /// Acknowledged bundles that this replica keeps. A block that names them needs no further record of them.
    Kept {
        spreader: ReplicaId,
        /// They are kept until this height is committed, or until they are executed.
        until: Height,
        bundles: Vec<Bundle>,
    },
    /// A block, after its parent and its bundles.
    Block(Arc<Block>),
    /// Certificate that later statements rely on: the highest one, or one that began a view.
    Certificate(Box<Certificate>),
    /// Encoded protocol message that the replica may have to send or show again.
    Message(Bytes),
    /// Everything up to this block is committed. No message waits for this record, because its content can be learned
    /// again.
    Commit { height: Height, digest: Digest },
    /// The replica has lost its journal. It sends no statements in views up to this one, or in any view if this is
    /// [`FORGOTTEN`].
    Abstain(View),
    /// Start of a summary. Once [`Record::Summed`] is written, the journal from here on suffices, and everything before
    /// it may be truncated.
    Summary {
        /// Committed height at that time.
        height: Height,
        /// Committed block at that height.
        digest: Digest,
    },
    /// One of the last committed blocks, without its bundles, for leader election. Part of a summary.
    Ancestor {
        block: Arc<Block>,
        /// Replicas that may be elected on top of it.
        candidates: Vec<ReplicaId>,
    },
    /// End of a summary.
    Summed,
    /// Proof of the others' progress, to be shown to a replica that has lost its journal.
    Standing(Standing),
    /// All certificates that a view change shows, in protocols with slots: one for each slot that is prepared here.
    /// They may be [bare](crate::protocols::pbft::message::bare). Part of a summary.
    Claims(Vec<Certificate>),
    /// Certificate that a bundle of a final block is absent, so that the block is executed without the bundle.
    Void(Box<Certificate>),
    /// The replica has lost its journal, and with it bundles that it had acknowledged. Blocks up to this height may
    /// rely on those acknowledgements.
    LostKept { up_to: Height },
    /// The process ended in good order, and everything that the replica signed is in records before this one. It had
    /// proposed in no view above `proposed`, so the view that its last vote reserved is free after the restart.
    Stopped { proposed: View },
}

/// Bound used while a replica does not know in which views it may have voted.
pub const FORGOTTEN: View = View(u64::MAX);

impl Record {
    /// Returns the encoding in pieces that share the bodies of bundles instead of copying them. Concatenated, they
    /// equal the output of [`Wire::encode`].
    pub fn pieces(&self, out: &mut Encoder) -> Vec<Bytes> {
        match self {
            Record::Bundles(bundles) | Record::Kept { bundles, .. } => {
                self.encode_head(out);
                std::iter::once(out.take()).chain(bundles.iter().map(|bundle| bundle.body().clone())).collect()
            }
            _ => {
                self.encode(out);
                vec![out.take()]
            }
        }
    }

    /// Returns the bundles that this record adds to the journal.
    pub fn bundles(&self) -> &[Bundle] {
        match self {
            Record::Bundles(bundles) | Record::Kept { bundles, .. } => bundles,
            _ => &[],
        }
    }

    /// Encodes the record without the bodies of its bundles.
    fn encode_head(&self, out: &mut Encoder) {
        if let Record::Kept { spreader, until, .. } = self {
            out.put_u8(13);
            spreader.encode(out);
            until.encode(out);
        } else {
            out.put_u8(2);
        }
        let bundles = self.bundles();
        out.put_count(bundles.len());
        bundles.iter().for_each(|bundle| out.put_count(bundle.body().len()));
    }

    /// Returns the approximate size of the record in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Record::Bundles(bundles) | Record::Kept { bundles, .. } => {
                bundles.iter().map(|bundle| bundle.body().len()).sum()
            }
            Record::Block(block) | Record::Ancestor { block, .. } => {
                block.justify.proof.len() + block.payload.len() * size_of::<Digest>() + block.covers().wire_bytes()
            }
            Record::Certificate(certificate) | Record::Void(certificate) => certificate.proof.len(),
            Record::Claims(claims) => claims.iter().map(|claim| size_of::<Certificate>() + claim.proof.len()).sum(),
            Record::Message(message) => message.len(),
            Record::Standing(standing) => {
                let proofs = standing.certificates.iter().map(|certificate| certificate.proof.len());
                proofs.chain(standing.votes.iter().map(|vote| vote.signature.len())).sum()
            }
            Record::Promise(_)
            | Record::Commit { .. }
            | Record::Abstain(_)
            | Record::Summary { .. }
            | Record::LostKept { .. }
            | Record::Stopped { .. }
            | Record::Summed => 0,
        }
    }
}

fn decode_bundles(input: &mut Decoder) -> Result<Vec<Bundle>, DecodeError> {
    let count = input.get_count("bundles of a record", MAX_BLOCK_BUNDLES, 4)?;
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        lengths.push(input.get_count("length of a bundle", MAX_BUNDLE_BYTES, 1)?);
    }
    let mut bundles = Vec::with_capacity(count);
    for length in lengths {
        let start = input.position();
        input.skip("bundle", length)?;
        let body = Bundle::from_body(input.slice_from(start));
        bundles.push(body.map_err(|error| DecodeError { at: start + error.at, ..error })?);
    }
    Ok(bundles)
}

wire! {
    enum Record as "record" {
        1 = Promise(promise),
        3 = Block(block),
        4 = Certificate(certificate),
        5 = Message(message: bytes["message of a record", MAX_FRAME_BYTES]),
        6 = Commit { height, digest },
        7 = Abstain(view),
        8 = Summary { height, digest },
        9 = Ancestor { block, candidates: list["candidates", MAX_REPLICAS, 2] },
        10 = Summed,
        11 = Standing(standing),
        12 = Claims(claims: list["claims of a record", MAX_WINDOW, 49]),
        14 = Void(certificate),
        15 = LostKept { up_to },
        16 = Stopped { proposed },
    } by hand |out, input| {
        record @ (Record::Bundles(bundles) | Record::Kept { bundles, .. }) => {
            record.encode_head(out);
            bundles.iter().for_each(|bundle| out.put_slice(bundle.body()));
        }
    } {
        2 => Ok(Record::Bundles(decode_bundles(input)?)),
        13 => {
            let (spreader, until) = (Wire::decode(input)?, Wire::decode(input)?);
            Ok(Record::Kept { spreader, until, bundles: decode_bundles(input)? })
        }
    }
}

/// Proof of a replica's progress, for a replica that restarts or has lost its journal.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Standing {
    /// Certificates that are the proof.
    pub certificates: Vec<Certificate>,
    /// Signed statements of other replicas, in protocols where these are the proof.
    pub votes: Vec<Vote>,
}

/// Maximum number of certificates in a [`Standing`].
const MAX_STANDING_CERTIFICATES: usize = 4;

wire! {
    struct Standing {
        certificates: list["certificates of a standing", MAX_STANDING_CERTIFICATES, 49],
        votes: list["votes of a standing", MAX_REPLICAS, 49],
    }
}

/// Reason why a record cannot follow the records before it: the journal belongs to another replica, or was written by
/// another version.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecallError {
    /// The parent or a bundle of a block is missing.
    #[error("the parent or the commands of block {digest:?} at height {height} are missing")]
    Incomplete { height: Height, digest: Digest },
    /// The block of a commit is missing, or the commit contradicts the committed chain.
    #[error("the commit of {digest:?} at height {height} does not extend the committed chain")]
    Gap { height: Height, digest: Digest },
    /// A message cannot be decoded.
    #[error("a message in the record cannot be decoded: {0}")]
    Message(DecodeError),
}

/// State of a replica that asks the others how far they are.
#[derive(Debug)]
pub(crate) struct Asking {
    /// Distinguishes answers to this question from answers to earlier ones.
    pub nonce: u64,
    /// Replicas that have answered.
    pub answered: quorate_types::Signers,
    /// Highest view in which this replica may have voted, according to the answers.
    pub bound: View,
    /// When to ask the remaining replicas again.
    pub due: quorate_types::Time,
}

impl Asking {
    pub fn new(nonce: u64, now: quorate_types::Time, bound: View) -> Asking {
        Asking { nonce, answered: quorate_types::Signers::empty(), bound, due: now }
    }

    /// Returns whether `from` has yet to answer this question.
    pub fn awaits(&self, from: ReplicaId, nonce: u64) -> bool {
        self.nonce == nonce && !self.answered.contains(from)
    }
}
