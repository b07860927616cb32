//! Entries of a recording, in the wire codec.

use bytes::Bytes;
use quorate_consensus::seam::encoding::Fingerprint;
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::limits::MAX_FRAME_BYTES;
use quorate_types::{ReplicaId, Time, Wire, wire};

/// Maximum size of an input, in bytes: the client bundles of one iteration, or a frame, plus its header.
pub const MAX_INPUT_BYTES: usize = 2 * MAX_FRAME_BYTES;
/// Maximum number of actions in a step: a replica that has fallen behind commits all missing blocks at once.
pub const MAX_ACTIONS: usize = 1 << 20;
/// Maximum length of a run's trace.
const MAX_TRACE_BYTES: usize = 64;

/// Entry of a recording, in this order: one `Begin`, any number of `Step`s, at most one `End`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    Begin(Begin),
    Step(Step),
    End(End),
}

/// Start or restart of a replica. After a restart, its first inputs are the records of its journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin {
    pub replica: ReplicaId,
    pub salt: u64,
}

/// Input of a replica, and its resulting actions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    pub replica: ReplicaId,
    /// Time that the host passed to the replica; a replay passes it too.
    pub now: Time,
    /// The input in the encoding of `seam::encoding`.
    pub input: Bytes,
    /// `None` if the step did not complete because the replica panicked.
    pub actions: Option<Vec<Fingerprint>>,
}

/// Reason for the end of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The run has ended.
    Done {
        /// Trace hash of a simulated run.
        trace: Option<String>,
    },
    /// The recording has reached its maximum size.
    Limit { bytes: u64 },
}

wire! { struct Begin { replica, salt: u64["salt"] } }

wire! {
    enum Entry as "entry" { 1 = Begin(begin) }
    by hand |out, input| {
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
    } {
        kind @ (2 | 3) => Ok(Entry::Step(Step {
            replica: Wire::decode(input)?,
            now: Time(input.get_u64("time")?),
            input: input.get_bytes("input", MAX_INPUT_BYTES)?,
            actions: match kind {
                2 => Some(decode_list(input, "actions", MAX_ACTIONS, Fingerprint::BYTES)?),
                _ => None,
            },
        })),
        4 => {
            let trace = input.get_text("trace", MAX_TRACE_BYTES)?;
            Ok(Entry::End(End::Done { trace: (!trace.is_empty()).then_some(trace) }))
        }
        5 => Ok(Entry::End(End::Limit { bytes: input.get_u64("limit")? })),
    }
}
