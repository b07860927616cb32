//! What clients and replicas say to each other.

use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::command::Bundle;
use crate::digest::Digest;
use crate::ids::Height;
use crate::limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_COMMANDS, MAX_PAYLOAD_BYTES, MAX_TEXT_BYTES};
use bytes::Bytes;

/// From a client to a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientRequest {
    /// Order and execute these commands.
    Submit(Bundle),
    /// Read the application's state as this replica has it, without ordering.
    Query {
        /// The client's name for the question.
        id: u64,
        /// What the application is asked.
        question: Bytes,
    },
    /// Report counters.
    Status {
        /// The client's name for the question.
        id: u64,
        /// Whether with the history of what was executed, which is long.
        history: bool,
    },
    /// Tell the height that you have executed: a client has to know about where the cluster is, as what it signs expires.
    Height {
        /// The client's name for the question.
        id: u64,
    },
}

impl Wire for ClientRequest {
    fn encode(&self, out: &mut Encoder) {
        match self {
            ClientRequest::Submit(bundle) => {
                out.put_u8(1);
                bundle.encode(out);
            }
            ClientRequest::Query { id, question } => {
                out.put_u8(2);
                out.put_u64(*id);
                out.put_bytes(question);
            }
            ClientRequest::Status { id, history } => {
                out.put_u8(3);
                out.put_u64(*id);
                out.put_u8((*history).into());
            }
            ClientRequest::Height { id } => {
                out.put_u8(4);
                out.put_u64(*id);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        match input.get_u8("client request")? {
            1 => Ok(ClientRequest::Submit(Bundle::decode(input)?)),
            2 => Ok(ClientRequest::Query {
                id: input.get_u64("query id")?,
                question: input.get_bytes("question", MAX_PAYLOAD_BYTES)?,
            }),
            3 => {
                let id = input.get_u64("status id")?;
                match input.get_u8("whether with history")? {
                    0 => Ok(ClientRequest::Status { id, history: false }),
                    1 => Ok(ClientRequest::Status { id, history: true }),
                    _ => Err(input.invalid("whether with history", "neither 0 nor 1")),
                }
            }
            4 => Ok(ClientRequest::Height { id: input.get_u64("height id")? }),
            _ => Err(input.invalid("client request", "no such kind")),
        }
    }
}

/// What became of one command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<'a> {
    /// It was executed now, with this result.
    Executed(&'a [u8]),
    /// It was executed before: it has no effect now.
    Duplicate,
    /// It was not executed and is not remembered: its number is none that a client may use, its bundle expires too late, or the results
    /// have grown too large. Should the same bundle be ordered again before it expires, it may be executed then.
    Refused,
    /// It was not executed and never will be, as its bundle expired. The client may sign it again, with its number, to expire later.
    Expired,
    /// It never will be executed from now on; whether it was is no longer known, as its session was evicted or has moved on.
    Forgotten,
}

impl Outcome<'_> {
    /// Whether the command's effect is part of the state, now or before.
    pub fn is_executed(&self) -> bool {
        matches!(self, Outcome::Executed(_) | Outcome::Duplicate)
    }
}

/// The outcomes of a bundle's commands in their order, in canonical form: equal outcomes are equal bytes, so that a client
/// compares replies without taking them apart.
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
    /// The canonical form.
    pub fn collect<'a>(outcomes: impl Iterator<Item = Outcome<'a>>) -> Results {
        let mut builder = ResultsBuilder::default();
        outcomes.for_each(|outcome| builder.push(outcome));
        builder.finish()
    }

    /// The form of `count` commands that were all executed with an empty result.
    pub fn all_empty(count: usize) -> Results {
        let mut out = Encoder::with_capacity(5);
        out.put_u8(ALL_EMPTY);
        out.put_count(count);
        Results { body: out.finish() }
    }

    /// No outcomes at all: the acknowledgement of a cluster that answers for no single command (reply mode `none`). A bundle
    /// has at least one command, so it is never mistaken for the outcomes of one; the client takes the first one that it gets
    /// as the end of the bundle.
    pub fn bare() -> Results {
        Results::all_empty(0)
    }

    /// Whether this is the [bare](Results::bare) acknowledgement.
    pub fn is_bare(&self) -> bool {
        self.is_empty()
    }

    /// The bytes that equal outcomes share.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether every command was executed with an empty result: nothing is listed then.
    #[inline]
    pub fn is_all_empty(&self) -> bool {
        self.body[0] == ALL_EMPTY
    }

    /// How many outcomes there are.
    pub fn len(&self) -> usize {
        u32::from_le_bytes(self.body[1..5].try_into().expect("validated")) as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The outcomes in the commands' order.
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

/// Collects outcomes into their canonical form, one after the other; it is reused from bundle to bundle and keeps its memory.
#[derive(Default)]
pub struct ResultsBuilder {
    count: usize,
    /// The listed form after its count; empty as long as every outcome is an empty result.
    listed: Vec<u8>,
}

/// An executed command with an empty result, as it is listed.
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

    /// Bytes that the outcomes take so far.
    pub fn bytes(&self) -> usize {
        self.listed.len()
    }

    /// The outcomes since the last call, in canonical form; the builder is empty again.
    pub fn finish(&mut self) -> Results {
        let count = std::mem::take(&mut self.count);
        if self.listed.is_empty() {
            return Results::all_empty(count);
        }
        let mut out = Encoder::with_capacity(5 + self.listed.len());
        out.put_u8(LISTED);
        out.put_count(count);
        out.put_slice(&self.listed);
        self.listed.clear();
        Results { body: out.finish() }
    }
}

/// From a replica to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplicaReply {
    /// A bundle was executed. f+1 equal ones are the truth.
    Executed {
        /// The bundle.
        bundle: Digest,
        /// The height of the block that carried it; 0 if it is not ordered as its commands' outcomes are settled.
        height: Height,
        /// What became of each command.
        results: Results,
    },
    /// A bundle was refused.
    Refused {
        /// The bundle.
        bundle: Digest,
        /// What is in the way and what helps.
        why: String,
        /// Whether the same bundle may be taken later: there is no room for it now. Otherwise it never will be.
        again: bool,
    },
    /// The answer to a query.
    Answer {
        /// The question's name.
        id: u64,
        /// The height the state stood at.
        height: Height,
        /// The application's answer.
        answer: Bytes,
    },
    /// Counters, as the JSON form of [`crate::Status`].
    Status {
        /// The question's name.
        id: u64,
        /// The JSON text.
        json: Bytes,
    },
    /// How far the replica has executed. One may lie: of those of n-f replicas the (f+1)-th highest lies between two honest ones.
    Height {
        /// The question's name.
        id: u64,
        /// The last executed height.
        height: Height,
    },
}

impl Wire for ReplicaReply {
    fn encode(&self, out: &mut Encoder) {
        match self {
            ReplicaReply::Executed { bundle, height, results } => {
                out.put_u8(1);
                bundle.encode(out);
                height.encode(out);
                results.encode(out);
            }
            ReplicaReply::Refused { bundle, why, again } => {
                out.put_u8(2);
                bundle.encode(out);
                out.put_bytes(why.as_bytes());
                out.put_u8(u8::from(*again));
            }
            ReplicaReply::Answer { id, height, answer } => {
                out.put_u8(3);
                out.put_u64(*id);
                height.encode(out);
                out.put_bytes(answer);
            }
            ReplicaReply::Status { id, json } => {
                out.put_u8(4);
                out.put_u64(*id);
                out.put_bytes(json);
            }
            ReplicaReply::Height { id, height } => {
                out.put_u8(5);
                out.put_u64(*id);
                height.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        match input.get_u8("replica reply")? {
            1 => Ok(ReplicaReply::Executed {
                bundle: Digest::decode(input)?,
                height: Height::decode(input)?,
                results: Results::decode(input)?,
            }),
            2 => {
                let bundle = Digest::decode(input)?;
                let text = input.get_bytes("reason", MAX_TEXT_BYTES)?;
                let why =
                    std::str::from_utf8(&text).map_err(|_| input.invalid("reason", "it is not UTF-8"))?.to_owned();
                let again = match input.get_u8("refusal")? {
                    0 => false,
                    1 => true,
                    _ => return Err(input.invalid("refusal", "it is neither for now nor for good")),
                };
                Ok(ReplicaReply::Refused { bundle, why, again })
            }
            3 => Ok(ReplicaReply::Answer {
                id: input.get_u64("query id")?,
                height: Height::decode(input)?,
                answer: input.get_bytes("answer", MAX_BUNDLE_BYTES)?,
            }),
            4 => Ok(ReplicaReply::Status {
                id: input.get_u64("status id")?,
                json: input.get_bytes("status", MAX_TEXT_BYTES)?,
            }),
            5 => Ok(ReplicaReply::Height { id: input.get_u64("height id")?, height: Height::decode(input)? }),
            _ => Err(input.invalid("replica reply", "no such kind")),
        }
    }
}
