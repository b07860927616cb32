//! Messages between clients and replicas.

use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::command::Bundle;
use crate::digest::{Digest, Hasher};
use crate::ids::{FeatureLevel, Height};
use crate::level::LevelSupport;
use crate::limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_COMMANDS, MAX_PAYLOAD_BYTES, MAX_SIGNATURE_BYTES, MAX_TEXT_BYTES};
use crate::parameters::Parameters;
use crate::tags;
use crate::wire;
use bytes::Bytes;

/// Message from a client to a replica. A reply repeats the `id` of its request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientRequest {
    /// Order and execute these commands.
    Submit(Bundle),
    /// Read this replica's application state, without ordering.
    Query { id: u64, question: Bytes },
    /// Report counters and, with `history`, also the history of executed commands, which is long.
    Status { id: u64, history: bool },
    /// Report the executed height. A client needs it because its signed bundles expire at a height.
    Height { id: u64 },
    /// The key from which the id of the link's client is derived, with its certificate if it has one. A replica needs
    /// the key to create MACs on replies, and otherwise learns it only from bundles, so this message precedes queries.
    /// It is not answered.
    Introduce { credential: Bytes },
    /// Proves that the sender holds an admitted key: contains the key, its certificate if it has one, and its signature
    /// of the link's [challenge](ReplicaReply::Challenge). It is not answered; repeat the query after it.
    Prove { credential: Bytes, signature: Bytes },
    /// Compare these values of the client's configuration with the replica's.
    Compare { id: u64, values: Parameters },
    /// Sign that the program supports this feature level. A replica answers operators only.
    Support { id: u64, level: FeatureLevel },
}

/// Returns the digest by which an answer identifies its query.
pub fn question_digest(question: &[u8]) -> Digest {
    let mut hasher = Hasher::new(tags::QUESTION);
    hasher.update(question);
    hasher.finish()
}

/// Maximum length of a credential, an Ed25519 key and a certificate, in bytes.
pub const MAX_CREDENTIAL_BYTES: usize = 96;

wire! {
    enum ClientRequest as "client request" {
        1 = Submit(bundle),
        2 = Query { id: u64["query id"], question: bytes["question", MAX_PAYLOAD_BYTES] },
        3 = Status { id: u64["status id"], history: flag["history flag"] },
        4 = Height { id: u64["height id"] },
        5 = Introduce { credential: bytes["credential", MAX_CREDENTIAL_BYTES] },
        6 = Prove {
            credential: bytes["credential", MAX_CREDENTIAL_BYTES],
            signature: bytes["proof of a key", MAX_SIGNATURE_BYTES],
        },
        7 = Compare { id: u64["comparison id"], values },
        8 = Support { id: u64["support id"], level },
    }
}

/// Outcome of one command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<'a> {
    /// Executed now, with this result.
    Executed(&'a [u8]),
    /// Executed before, so without effect now.
    Duplicate,
    /// Not executed and not remembered: its sequence number is invalid, its bundle expires too late, or the results are
    /// too long. It may be executed if the bundle is ordered again before it expires.
    Refused,
    /// Not executed now or later, because its bundle has expired. The client may sign it again with the same sequence
    /// number.
    Expired,
    /// Not executed now or later. Unknown whether it was executed before: its session was evicted or has moved on.
    Forgotten,
}

impl Outcome<'_> {
    /// Returns whether the command's effect is part of the state, from now or before.
    pub fn is_executed(&self) -> bool {
        matches!(self, Outcome::Executed(_) | Outcome::Duplicate)
    }
}

/// Outcomes of a bundle's commands, in order and in canonical form: equal outcomes have equal bytes, so clients compare
/// replies without decoding them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Results {
    body: Bytes,
}

const ALL_EMPTY: u8 = 0;
const LISTED: u8 = 1;
const EXECUTED: u8 = 0;
const DUPLICATE: u8 = 1;
const REFUSED: u8 = 2;
const EXPIRED: u8 = 3;
const FORGOTTEN: u8 = 4;

impl Results {
    pub fn collect<'a>(outcomes: impl Iterator<Item = Outcome<'a>>) -> Results {
        let mut builder = ResultsBuilder::default();
        outcomes.for_each(|outcome| builder.push(outcome));
        builder.finish()
    }

    /// Returns the results of `count` commands that were all executed with an empty result.
    pub fn all_empty(count: usize) -> Results {
        let mut out = Encoder::with_capacity(5);
        out.put_u8(ALL_EMPTY);
        out.put_count(count);
        Results { body: out.finish() }
    }

    /// Returns the acknowledgement of reply mode `none`, without outcomes. A bundle has at least one command, so it is
    /// never mistaken for outcomes. The client treats the first one as the end of the bundle.
    pub fn bare() -> Results {
        Results::all_empty(0)
    }

    /// Returns whether this is the [bare](Results::bare) acknowledgement.
    pub fn is_bare(&self) -> bool {
        self.is_empty()
    }

    /// Returns the canonical encoding.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns whether every command was executed with an empty result.
    #[inline]
    pub fn is_all_empty(&self) -> bool {
        self.body[0] == ALL_EMPTY
    }

    pub fn len(&self) -> usize {
        u32::from_le_bytes(self.body[1..5].try_into().expect("validated")) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the outcomes, in the order of the commands.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome<'_>> {
        let listed = self.body[0] == LISTED;
        let mut rest = &self.body[5..];
        (0..self.len()).map(move |_| {
            if !listed {
                return Outcome::Executed(&[]);
            }
            let (kind, tail) = rest.split_at(1);
            rest = tail;
            match kind[0] {
                DUPLICATE => return Outcome::Duplicate,
                REFUSED => return Outcome::Refused,
                EXPIRED => return Outcome::Expired,
                FORGOTTEN => return Outcome::Forgotten,
                _ => {}
            }
            let (length, tail) = rest.split_at(4);
            let (result, tail) = tail.split_at(u32::from_le_bytes(length.try_into().expect("four bytes")) as usize);
            rest = tail;
            Outcome::Executed(result)
        })
    }
}

/// By hand: results are their encoding, which must be the shortest.
impl Wire for Results {
    fn encode(&self, out: &mut Encoder) {
        out.put_slice(&self.body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let start = input.position();
        let kind = input.get_u8("results")?;
        if kind != ALL_EMPTY && kind != LISTED {
            return Err(input.invalid("results", "no such form"));
        }
        let count = input.get_count("results", MAX_BUNDLE_COMMANDS, usize::from(kind == LISTED))?;
        let mut telling = kind == ALL_EMPTY || count == 0;
        for _ in 0..if kind == LISTED { count } else { 0 } {
            match input.get_u8("outcome")? {
                EXECUTED => telling |= !input.get_bytes("result", MAX_BUNDLE_BYTES)?.is_empty(),
                DUPLICATE | REFUSED | EXPIRED | FORGOTTEN => telling = true,
                _ => return Err(input.invalid("outcome", "no such kind")),
            }
        }
        if !telling || (kind == LISTED && count == 0) {
            return Err(input.invalid("results", "a list of empty results is not in its shortest form"));
        }
        Ok(Results { body: input.slice_from(start) })
    }
}

/// Builder of [`Results`], reused across bundles to avoid allocations.
#[derive(Default)]
pub struct ResultsBuilder {
    count: usize,
    /// The listed form after its count; empty while every outcome is an empty result.
    listed: Vec<u8>,
    /// The last all-empty results, shared by bundles of equal length.
    last_empty: Option<Results>,
}

/// The listed form of an executed command with an empty result.
const LISTED_EMPTY: [u8; 5] = [EXECUTED, 0, 0, 0, 0];

impl ResultsBuilder {
    /// Appends the next command's outcome.
    #[inline]
    pub fn push(&mut self, outcome: Outcome<'_>) {
        if !self.listed.is_empty() || outcome != Outcome::Executed(&[]) {
            self.list(outcome);
        }
        self.count += 1;
    }

    fn list(&mut self, outcome: Outcome<'_>) {
        if self.listed.is_empty() {
            (0..self.count).for_each(|_| self.listed.extend_from_slice(&LISTED_EMPTY));
        }
        match outcome {
            Outcome::Executed(result) => {
                let length = u32::try_from(result.len()).expect("every result has a limit below 2^32");
                self.listed.push(EXECUTED);
                self.listed.extend_from_slice(&length.to_le_bytes());
                self.listed.extend_from_slice(result);
            }
            Outcome::Duplicate => self.listed.push(DUPLICATE),
            Outcome::Refused => self.listed.push(REFUSED),
            Outcome::Expired => self.listed.push(EXPIRED),
            Outcome::Forgotten => self.listed.push(FORGOTTEN),
        }
    }

    /// Returns the length of the outcomes listed so far, in bytes.
    pub fn bytes(&self) -> usize {
        self.listed.len()
    }

    /// Returns the outcomes since the last call and empties the builder.
    pub fn finish(&mut self) -> Results {
        let count = std::mem::take(&mut self.count);
        if self.listed.is_empty() {
            let last = self.last_empty.take().filter(|last| last.len() == count);
            return self.last_empty.insert(last.unwrap_or_else(|| Results::all_empty(count))).clone();
        }
        let mut out = Encoder::with_capacity(5 + self.listed.len());
        out.put_u8(LISTED);
        out.put_count(count);
        out.put_slice(&self.listed);
        self.listed.clear();
        Results { body: out.finish() }
    }
}

/// Kind of a frame of [authenticated replies](crate::AuthenticatedReplies), among the kinds of replies. Kind 3 was an
/// answer that did not identify its query.
pub(crate) const AUTHENTICATED_KIND: u8 = 7;

/// Message from a replica to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplicaReply {
    /// A bundle was executed. f+1 equal replies prove it.
    Executed {
        bundle: Digest,
        /// Height of the bundle's block; 0 if the bundle is not ordered because its commands' outcomes are already
        /// settled.
        height: Height,
        results: Results,
    },
    /// A bundle was refused.
    Refused {
        bundle: Digest,
        /// The error and its remedy.
        why: String,
        /// Whether the bundle may be accepted later, because resources are exhausted only now. Otherwise it will never
        /// be accepted.
        again: bool,
    },
    /// A bundle was refused because its commands would wait too long. It may be sent again unchanged.
    Busy {
        bundle: Digest,
        /// Time after which the bundle should be accepted, in milliseconds.
        retry_after_ms: u32,
    },
    /// Answer to a query, with the height of the state from which it was read. It also identifies the query by its
    /// [digest](question_digest), because on an unprotected channel anybody can send a different query with the same
    /// id.
    Answer { id: u64, question: Digest, height: Height, answer: Bytes },
    /// Counters, as the JSON form of [`crate::Status`].
    Status { id: u64, json: Bytes },
    /// The last executed height. A replica may lie: among n-f answers, the (f+1)-th highest lies between two honest
    /// ones.
    Height { id: u64, height: Height },
    /// The replica answers queries only of clients that prove a key. The challenge is for this link alone.
    Challenge { challenge: Digest },
    /// A query was not answered.
    Unanswered {
        id: u64,
        /// The error and its remedy.
        why: String,
        /// Whether the query may be answered later. Otherwise it never will be on this link.
        again: bool,
    },
    /// Answer to a comparison: the replica's values of the compared keys that differ, and the maximum length of a
    /// client's frame, in bytes. A replica may lie; f+1 equal answers include an honest one.
    Compared { id: u64, differing: Parameters, max_frame_bytes: u32 },
    /// A frame from the client exceeds this limit, so the replica closes the link.
    FrameTooLong { bytes: u32, max_bytes: u32 },
    /// The replica's signed statement that its program supports the level.
    Supports { id: u64, support: LevelSupport },
}

wire! {
    enum ReplicaReply as "replica reply" {
        1 = Executed { bundle, height, results },
        2 = Refused { bundle, why: text["reason", MAX_TEXT_BYTES], again: with[encode_retry, decode_retry] },
        4 = Status { id: u64["status id"], json: bytes["status", MAX_TEXT_BYTES] },
        5 = Height { id: u64["height id"], height },
        6 = Busy { bundle, retry_after_ms: u32["retry time in milliseconds"] },
        8 = Answer { id: u64["query id"], question, height, answer: bytes["answer", MAX_BUNDLE_BYTES] },
        9 = Challenge { challenge },
        10 = Unanswered {
            id: u64["question id"],
            why: text["reason", MAX_TEXT_BYTES],
            again: with[encode_retry, decode_retry],
        },
        11 = Compared {
            id: u64["comparison id"],
            differing,
            max_frame_bytes: u32["maximum length of a frame"],
        },
        12 = FrameTooLong { bytes: u32["length of a frame"], max_bytes: u32["maximum length of a frame"] },
        13 = Supports { id: u64["support id"], support },
    } by hand |out, input| {} {
        AUTHENTICATED_KIND => {
            let why = "it is authenticated; help: set `reply_authentication` as on the replicas";
            Err(input.invalid("replica reply", why))
        }
    }
}

fn encode_retry(again: &bool, out: &mut Encoder) {
    out.put_u8(u8::from(*again));
}

fn decode_retry(input: &mut Decoder) -> Result<bool, DecodeError> {
    match input.get_u8("refusal")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(input.invalid("refusal", "the retry flag is neither 0 nor 1")),
    }
}
