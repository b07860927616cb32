//! Encoding of a replica's inputs, and fingerprints of its actions. A recording consists of both.
//!
//! Like every message on the wire, an input has exactly one encoding. Actions are only compared, so they have a
//! [`Fingerprint`] instead of a decodable encoding.

use crate::data::lanes::Source;
use crate::recovery::journal::Record;
use crate::recovery::transfer::Part;
use crate::seam::{Action, Halt, Input, Job, MAX_PART_BYTES, Mark, RecordId, Timer, To};
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::limits::{MAX_BLOCK_BUNDLES, MAX_REPLICAS};
use quorate_types::state::{MAX_CHUNKS, chunk_digest};
use quorate_types::wire;
use quorate_types::{Bundle, DecodeError, Decoder, Encoder, Hasher, Height, ReplicaId, Wire, tags};

/// Maximum number of bundles in one [`Input::Submit`]: as many as the largest block names.
pub const MAX_SUBMITTED_BUNDLES: usize = MAX_BLOCK_BUNDLES;

wire! {
    enum Timer as "timer" of ALL
}

wire! {
    enum Source as "source of a bundle" {
        0 = Unnamed,
        1 = Peer(peer),
        2 = Client { source_group: u64["crowd"], link: u64["link"] },
        3 = Spreader(peer),
    }
}

wire! {
    enum Input<M> as "input" {
        1 = Start,
        2 = Receive { from, message },
        4 = Timeout(timer),
        5 = Verdict { job, genuine: flag["verdict"] },
        8 = Executed { height, state, kept: flag["whether a state is kept"] },
        9 = Recall { id, record },
        10 = Forgot,
        11 = Summarize,
        12 = Kept { checkpoint },
        14 = Holds { height, chunks: with[encode_chunks, decode_chunks] },
        15 = Adopted { checkpoint, frontier },
        16 = Left(source),
        17 = Clock { origin_ms: u64["wall clock"] },
    } by hand |out, input| {
        Input::Submit { bundles, sources } => {
            out.put_u8(3);
            encode_list(bundles, out);
            encode_list(sources, out);
        }
        Input::Assembled { job, result } => {
            out.put_u8(if result.is_ok() { 6 } else { 7 });
            job.encode(out);
            match result {
                Ok(certificate) => certificate.encode(out),
                Err(voters) => encode_list(voters, out),
            }
        }
        Input::StateRead { to, height, part, bytes } => {
            out.put_u8(13);
            encode_part(*to, *height, *part, out);
            out.put_u8(bytes.is_some().into());
            out.put_bytes(bytes.as_deref().unwrap_or_default());
        }
    } {
        3 => {
            let bundles = decode_list(input, "submitted bundles", MAX_SUBMITTED_BUNDLES, 4)?;
            let sources: Vec<Source> = decode_list(input, "sources of bundles", MAX_SUBMITTED_BUNDLES, 1)?;
            if !sources.is_empty() && sources.len() != bundles.len() {
                return Err(input.invalid("sources of bundles", "neither none nor one for each bundle"));
            }
            Ok(Input::Submit { bundles, sources })
        }
        6 => Ok(Input::Assembled { job: Wire::decode(input)?, result: Ok(Wire::decode(input)?) }),
        7 => {
            let job = Wire::decode(input)?;
            Ok(Input::Assembled { job, result: Err(decode_list(input, "struck voters", MAX_REPLICAS, 2)?) })
        }
        13 => {
            let (to, height) = (Wire::decode(input)?, Wire::decode(input)?);
            let (part, there) = (input.get_u32("part of a state")?, input.get_flag("whether a part is there")?);
            let bytes = input.get_bytes("part of a state", MAX_PART_BYTES)?;
            if !there && !bytes.is_empty() {
                return Err(input.invalid("part of a state", "an absent part has bytes"));
            }
            Ok(Input::StateRead { to, height, part, bytes: there.then_some(bytes) })
        }
    }
}

wire! { struct Job(u64["job"]) }
wire! { struct RecordId(u64["record id"]) }

fn encode_chunks(chunks: &[u32], out: &mut Encoder) {
    out.put_count(chunks.len());
    chunks.iter().for_each(|chunk| out.put_u32(*chunk));
}

fn decode_chunks<C: FromIterator<u32>>(input: &mut Decoder) -> Result<C, DecodeError> {
    let count = input.get_count("chunks that are held", MAX_CHUNKS, 4)?;
    (0..count).map(|_| input.get_u32("chunk that is held")).collect()
}

/// Comparison key of an action: its kind, and eight bytes of a hash over all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint {
    /// The kind, as an index into [`Fingerprint::KINDS`].
    kind: u8,
    hash: u64,
}

impl Fingerprint {
    /// Bytes of an encoded fingerprint.
    pub const BYTES: usize = 9;
    /// The names of the kinds of actions.
    pub const KINDS: [&'static str; 17] = [
        "send",
        "persist",
        "verify",
        "assemble",
        "arm",
        "halt",
        "commit",
        "digest state",
        "accuse",
        "mark",
        "state stable",
        "read state",
        "receive state",
        "keep chunk",
        "adopt state",
        "refuse",
        "accept repair",
    ];

    /// Returns the fingerprint of an action. `scratch` must be an empty encoder, and is empty again afterwards.
    pub fn of<M: Wire>(action: &Action<M>, scratch: &mut Encoder) -> Fingerprint {
        let kind = kind(action);
        encode_action(action, scratch);
        let mut hasher = Hasher::new(tags::ACTION);
        hasher.update(&[kind]);
        hasher.update(&scratch.take());
        Fingerprint { kind, hash: hasher.finish().prefix() }
    }

    /// Returns the kind of action, in one word.
    pub fn kind(&self) -> &'static str {
        Fingerprint::KINDS[usize::from(self.kind)]
    }
}

wire! {
    struct Fingerprint { kind: u8["kind of action"], hash: u64["hash of an action"] } check Fingerprint::is_of_a_kind
}

impl Fingerprint {
    fn is_of_a_kind(&self, input: &Decoder) -> Result<(), DecodeError> {
        match usize::from(self.kind) < Fingerprint::KINDS.len() {
            true => Ok(()),
            false => Err(input.invalid("kind of action", "no such kind")),
        }
    }
}

/// Returns the kind of an action, as an index into [`Fingerprint::KINDS`].
fn kind<M>(action: &Action<M>) -> u8 {
    match action {
        Action::Send { .. } => 0,
        Action::Persist { .. } => 1,
        Action::Verify { .. } => 2,
        Action::Assemble { .. } => 3,
        Action::Arm { .. } => 4,
        Action::Halt(_) => 5,
        Action::Commit { .. } => 6,
        Action::DigestState { .. } => 7,
        Action::Accuse(_) => 8,
        Action::Mark(_) => 9,
        Action::StateStable { .. } => 10,
        Action::ReadState { .. } => 11,
        Action::ReceiveState { .. } => 12,
        Action::KeepChunk { .. } => 13,
        Action::AdoptState { .. } => 14,
        Action::Refuse { .. } => 15,
        Action::AcceptRepair { .. } => 16,
    }
}

/// Appends the content of an action. Committed bundles are included by digest only.
fn encode_action<M: Wire>(action: &Action<M>, out: &mut Encoder) {
    match action {
        Action::Send { to, message, after, sign } => {
            encode_conditions(*to, *after, *sign, out);
            message.encode(out);
        }
        Action::Persist { id, record } => encode_persisted(*id, record, out),
        Action::Verify { job, certificates, votes } => {
            out.put_u64(job.0);
            encode_list(certificates, out);
            encode_list(votes, out);
        }
        Action::Assemble { job, subject, votes } => {
            out.put_u64(job.0);
            subject.encode(out);
            encode_list(votes, out);
        }
        Action::Arm { timer, after } => {
            timer.encode(out);
            out.put_u64(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        }
        Action::Commit { block, bundles } => {
            block.encode(out);
            encode_names(bundles, out);
        }
        Action::DigestState { frontier } => frontier.digest().encode(out),
        Action::Accuse(evidence) => {
            evidence.first.encode(out);
            evidence.second.encode(out);
        }
        Action::Refuse { bundle, why } => {
            bundle.encode(out);
            out.put_u8(*why as u8);
        }
        Action::AcceptRepair { after } => out.put_u64(after.0),
        Action::Halt(why) => encode_halt(why, out),
        Action::Mark(mark) => encode_mark(mark, out),
        Action::StateStable { checkpoint } | Action::AdoptState { checkpoint } => checkpoint.encode(out),
        Action::ReadState { to, height, part } => encode_part(*to, *height, *part, out),
        Action::ReceiveState { height, manifest } => {
            height.encode(out);
            manifest.encode(out);
        }
        Action::KeepChunk { height, chunk, bytes } => {
            height.encode(out);
            out.put_u32(*chunk);
            chunk_digest(bytes).encode(out);
        }
    }
}

fn encode_names(bundles: &[Bundle], out: &mut Encoder) {
    out.put_count(bundles.len());
    bundles.iter().for_each(|bundle| bundle.digest().encode(out));
}

fn encode_conditions(to: To, after: Option<RecordId>, sign: bool, out: &mut Encoder) {
    encode_recipients(to, out);
    out.put_u8(after.is_some().into());
    out.put_u64(after.map_or(0, |record| record.0));
    out.put_u8(sign.into());
}

fn encode_persisted(id: RecordId, record: &Record, out: &mut Encoder) {
    out.put_u64(id.0);
    match record {
        Record::Bundles(bundles) | Record::Kept { bundles, .. } => {
            bundles.iter().for_each(|bundle| bundle.digest().encode(out));
        }
        record => record.encode(out),
    }
}

fn encode_part(to: ReplicaId, height: Height, part: Part, out: &mut Encoder) {
    to.encode(out);
    height.encode(out);
    out.put_u32(part);
}

fn encode_recipients(to: To, out: &mut Encoder) {
    match to {
        To::One(replica) => {
            out.put_u8(0);
            replica.encode(out);
        }
        To::All => out.put_u8(1),
        To::Others => out.put_u8(2),
    }
}

fn encode_halt(why: &Halt, out: &mut Encoder) {
    match why {
        Halt::Unreadable { id, why } => {
            out.put_u8(0);
            out.put_u64(id.0);
            out.put_bytes(why.to_string().as_bytes());
        }
        Halt::Diverged { height } => encode_at(1, *height, out),
        Halt::Conflict { height } => encode_at(2, *height, out),
    }
}

fn encode_mark(mark: &Mark, out: &mut Encoder) {
    match mark {
        Mark::EnteredView { view, leader } => {
            out.put_u8(0);
            view.encode(out);
            leader.encode(out);
        }
        Mark::TimedOut(view) => {
            out.put_u8(1);
            view.encode(out);
        }
        Mark::Proposed { view, height, commands } => {
            out.put_u8(2);
            view.encode(out);
            height.encode(out);
            out.put_u64(*commands as u64);
        }
        Mark::Decided { view, height, digest } => {
            out.put_u8(3);
            view.encode(out);
            height.encode(out);
            digest.encode(out);
        }
        Mark::Stable { height } => encode_at(4, *height, out),
        Mark::Refused { view, rule } => {
            out.put_u8(5);
            view.encode(out);
            out.put_bytes(rule.as_bytes());
        }
        Mark::Dropped { from, why } => {
            out.put_u8(7);
            from.encode(out);
            out.put_u8(*why as u8);
        }
        Mark::Restarted { view, height } => {
            out.put_u8(8);
            view.encode(out);
            height.encode(out);
        }
        Mark::Forgot => out.put_u8(10),
        Mark::Abstains { up_to } => {
            out.put_u8(11);
            up_to.encode(out);
        }
        Mark::TakesPart { view } => {
            out.put_u8(12);
            view.encode(out);
        }
        Mark::Fetches { height } => encode_at(14, *height, out),
        Mark::Voided { height, bundle } => {
            encode_at(16, *height, out);
            bundle.encode(out);
        }
        Mark::Adopted { from, height } => {
            out.put_u8(15);
            from.encode(out);
            height.encode(out);
        }
    }
}

fn encode_at(kind: u8, height: Height, out: &mut Encoder) {
    out.put_u8(kind);
    height.encode(out);
}
