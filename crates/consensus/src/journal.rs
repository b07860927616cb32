//! What a replica's journal holds, and what it takes to come back from it.
//!
//! A [`Record`] precedes every statement that relies on it: ids ascend, and a message waits for the record of its own statement, so
//! that all before that one are durable too. Whoever starts a replica hands it its records in the order of their ids, as
//! [`Input::Recall`](crate::seam::Input::Recall), before [`Input::Start`](crate::seam::Input::Start); the replica asks for its
//! committed blocks to be executed once more, and goes on where it was. `docs/adr/012-what-the-journal-holds.md` says why this is
//! enough.

use crate::safety::Promise;
use bytes::Bytes;
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::limits::{MAX_BLOCK_BUNDLES, MAX_BUNDLE_BYTES, MAX_FRAME_BYTES, MAX_REPLICAS};
use quorate_types::{
    Block, Bundle, Certificate, DecodeError, Decoder, Digest, Encoder, Height, ReplicaId, View, Vote, Wire,
};
use std::sync::Arc;

/// Most bytes of bundles in one record with more than one.
pub const BUNDLES_RECORD_BYTES: usize = 1 << 20;

/// What is remembered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// What a statement binds the replica to.
    Promise(Promise),
    /// Bundles of the next block: who votes for a block says that it holds them.
    Bundles(Vec<Bundle>),
    /// A block; its parent and its bundles come before.
    Block(Arc<Block>),
    /// A certificate that later statements rely on: the highest, or one that began a view.
    Certificate(Box<Certificate>),
    /// A message of the protocol that may have to be said or shown again, in its encoding.
    Message(Bytes),
    /// All up to this block is committed. No message waits for it: what it says can be learnt again.
    Commit {
        /// Its height.
        height: Height,
        /// The block.
        digest: Digest,
    },
    /// The replica has lost its memory and says nothing in views up to this one; in none, as long as it is [`FORGOTTEN`].
    Abstain(View),
    /// From here on the journal has all that is needed, once [`Record::Summed`] is written: it may be cut here.
    Summary {
        /// The committed height at that time.
        height: Height,
        /// The committed block.
        digest: Digest,
    },
    /// After a summary: one of the last committed blocks, without its bundles, for the election of leaders.
    Ancestor {
        /// The block.
        block: Arc<Block>,
        /// Who may be elected on top of it.
        candidates: Vec<ReplicaId>,
    },
    /// The summary is complete.
    Summed,
    /// What showed this replica that others had come so far, to be shown again to one who has lost its memory.
    Standing(Standing),
}

/// The bound of a replica that has not learnt yet in which views it may have spoken.
pub const FORGOTTEN: View = View(u64::MAX);

impl Record {
    /// The encoding in pieces, of which the bodies of bundles are shared and not copied; together they are what
    /// [`Wire::encode`] appends.
    pub fn pieces(&self, out: &mut Encoder) -> Vec<Bytes> {
        match self {
            Record::Bundles(bundles) => {
                encode_bundle_lengths(bundles, out);
                std::iter::once(out.take()).chain(bundles.iter().map(|bundle| bundle.body().clone())).collect()
            }
            _ => {
                self.encode(out);
                vec![out.take()]
            }
        }
    }

    /// About how many bytes it has.
    pub fn bytes(&self) -> usize {
        match self {
            Record::Bundles(bundles) => bundles.iter().map(|bundle| bundle.body().len()).sum(),
            Record::Block(block) | Record::Ancestor { block, .. } => {
                block.justify.proof.len() + block.payload.len() * size_of::<Digest>()
            }
            Record::Certificate(certificate) => certificate.proof.len(),
            Record::Message(message) => message.len(),
            Record::Standing(standing) => {
                let proofs = standing.certificates.iter().map(|certificate| certificate.proof.len());
                proofs.chain(standing.votes.iter().map(|vote| vote.signature.len())).sum()
            }
            Record::Promise(_)
            | Record::Commit { .. }
            | Record::Abstain(_)
            | Record::Summary { .. }
            | Record::Summed => 0,
        }
    }
}

fn encode_bundle_lengths(bundles: &[Bundle], out: &mut Encoder) {
    out.put_u8(2);
    out.put_count(bundles.len());
    bundles.iter().for_each(|bundle| out.put_count(bundle.body().len()));
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

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Promise(promise) => {
                out.put_u8(1);
                promise.encode(out);
            }
            Record::Bundles(bundles) => {
                encode_bundle_lengths(bundles, out);
                bundles.iter().for_each(|bundle| out.put_slice(bundle.body()));
            }
            Record::Block(block) => {
                out.put_u8(3);
                block.encode(out);
            }
            Record::Certificate(certificate) => {
                out.put_u8(4);
                certificate.encode(out);
            }
            Record::Message(message) => {
                out.put_u8(5);
                out.put_bytes(message);
            }
            Record::Commit { height, digest } => {
                out.put_u8(6);
                height.encode(out);
                digest.encode(out);
            }
            Record::Abstain(view) => {
                out.put_u8(7);
                view.encode(out);
            }
            Record::Summary { height, digest } => {
                out.put_u8(8);
                height.encode(out);
                digest.encode(out);
            }
            Record::Ancestor { block, candidates } => {
                out.put_u8(9);
                block.encode(out);
                encode_list(candidates, out);
            }
            Record::Summed => out.put_u8(10),
            Record::Standing(standing) => {
                out.put_u8(11);
                standing.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match input.get_u8("record")? {
            1 => Record::Promise(Wire::decode(input)?),
            2 => Record::Bundles(decode_bundles(input)?),
            3 => Record::Block(Wire::decode(input)?),
            4 => Record::Certificate(Box::new(Wire::decode(input)?)),
            5 => Record::Message(input.get_bytes("message of a record", MAX_FRAME_BYTES)?),
            6 => Record::Commit { height: Wire::decode(input)?, digest: Wire::decode(input)? },
            7 => Record::Abstain(Wire::decode(input)?),
            8 => Record::Summary { height: Wire::decode(input)?, digest: Wire::decode(input)? },
            9 => Record::Ancestor {
                block: Wire::decode(input)?,
                candidates: decode_list(input, "candidates", MAX_REPLICAS, 2)?,
            },
            10 => Record::Summed,
            11 => Record::Standing(Wire::decode(input)?),
            _ => return Err(input.invalid("record", "no such kind")),
        })
    }
}

/// What shows others how far a replica has come: to one who comes back, and to one who has lost its memory.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Standing {
    /// The certificates on which it stands.
    pub certificates: Vec<Certificate>,
    /// Signed statements of others, where those show it.
    pub votes: Vec<Vote>,
}

/// Most certificates in a [`Standing`].
const MAX_STANDING_CERTIFICATES: usize = 4;

impl Wire for Standing {
    fn encode(&self, out: &mut Encoder) {
        encode_list(&self.certificates, out);
        encode_list(&self.votes, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Standing {
            certificates: decode_list(input, "certificates of a standing", MAX_STANDING_CERTIFICATES, 49)?,
            votes: decode_list(input, "votes of a standing", MAX_REPLICAS, 49)?,
        })
    }
}

/// Why a record makes no sense after those before it: the journal is another's, or was written by another version.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecallError {
    /// A block came without its parent or a bundle of it.
    #[error("the block {digest:?} at height {height} lacks its parent or its commands")]
    Incomplete {
        /// Its height.
        height: Height,
        /// The block.
        digest: Digest,
    },
    /// A commit came without the block, or contradicts what is committed.
    #[error("the commit of {digest:?} at height {height} does not follow from what was committed before")]
    Gap {
        /// The height.
        height: Height,
        /// The block.
        digest: Digest,
    },
    /// A message cannot be read.
    #[error("a message in it cannot be read: {0}")]
    Message(DecodeError),
}

/// A replica that asks others how far they are.
#[derive(Debug)]
pub(crate) struct Asking {
    /// What tells answers to this question from answers to earlier ones.
    pub nonce: u64,
    /// Who has answered.
    pub answered: quorate_types::Signers,
    /// The highest view in which, by their answers, this replica may have spoken.
    pub bound: View,
    /// When those who have not are asked again.
    pub due: quorate_types::Time,
}

impl Asking {
    pub fn new(nonce: u64, now: quorate_types::Time) -> Asking {
        Asking { nonce, answered: quorate_types::Signers::empty(), bound: View(0), due: now }
    }

    /// Whether `from` has not answered yet.
    pub fn awaits(&self, from: ReplicaId, nonce: u64) -> bool {
        self.nonce == nonce && !self.answered.contains(from)
    }
}
