//! What a recording tells, in the codec of the wire.

use bytes::Bytes;
use quorate_consensus::encoding::Fingerprint;
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::limits::MAX_FRAME_BYTES;
use quorate_types::{DecodeError, Decoder, Encoder, ReplicaId, Time, Wire};

/// Most bytes of one input: what clients say in one turn, or a frame, and the frame's own place in it.
pub const MAX_INPUT_BYTES: usize = 2 * MAX_FRAME_BYTES;
/// Most actions of one step: a replica that has fallen behind commits all that it lacked at once.
pub const MAX_ACTIONS: usize = 1 << 20;
/// Most bytes of the name of a run.
const MAX_TRACE_BYTES: usize = 64;

/// One thing that a recording tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A replica is made.
    Begin(Begin),
    /// A replica takes an input.
    Step(Step),
    /// The recording is over.
    End(End),
}

/// A replica is made, for the first time or again: what a journal tells one that is started again are its first inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin {
    /// Which.
    pub replica: ReplicaId,
    /// Its salt.
    pub salt: u64,
}

/// A replica takes an input and gives actions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Which.
    pub replica: ReplicaId,
    /// What its host took for the time.
    pub now: Time,
    /// The input, encoded.
    pub input: Bytes,
    /// The actions; none if it did not come to an end, because the replica panicked.
    pub actions: Option<Vec<Fingerprint>>,
}

/// Why a recording is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// What was recorded is.
    Done {
        /// The name of the run, if it was simulated.
        trace: Option<String>,
    },
    /// It has become as large as it may.
    Limit {
        /// How large, in bytes.
        bytes: u64,
    },
}

impl Wire for Entry {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Entry::Begin(Begin { replica, salt }) => {
                out.put_u8(1);
                replica.encode(out);
                out.put_u64(*salt);
            }
            Entry::Step(Step { replica, now, input, actions }) => {
                out.put_u8(if actions.is_some() { 2 } else { 3 });
                replica.encode(out);
                out.put_u64(now.0);
                out.put_bytes(input);
                if let Some(actions) = actions {
                    encode_list(actions, out);
                }
            }
            Entry::End(End::Done { trace }) => {
                out.put_u8(4);
                out.put_bytes(trace.as_deref().unwrap_or_default().as_bytes());
            }
            Entry::End(End::Limit { bytes }) => {
                out.put_u8(5);
                out.put_u64(*bytes);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let kind = input.get_u8("entry")?;
        Ok(match kind {
            1 => Entry::Begin(Begin { replica: Wire::decode(input)?, salt: input.get_u64("salt")? }),
            2 | 3 => Entry::Step(Step {
                replica: Wire::decode(input)?,
                now: Time(input.get_u64("time")?),
                input: input.get_bytes("input", MAX_INPUT_BYTES)?,
                actions: match kind {
                    2 => Some(decode_list(input, "actions", MAX_ACTIONS, Fingerprint::BYTES)?),
                    _ => None,
                },
            }),
            4 => {
                let trace = input.get_bytes("trace", MAX_TRACE_BYTES)?;
                let trace = std::str::from_utf8(&trace).map_err(|_| input.invalid("trace", "it is no text"))?;
                Entry::End(End::Done { trace: (!trace.is_empty()).then(|| trace.to_owned()) })
            }
            5 => Entry::End(End::Limit { bytes: input.get_u64("limit")? }),
            _ => return Err(input.invalid("entry", "no such kind")),
        })
    }
}
