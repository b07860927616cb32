//! quorate: recordings of replicas, and their replay.
//!
//! A replica is a function of its configuration, its identity, a salt and the times and inputs it is given. A recording keeps these,
//! and a fingerprint of each action that came out; [`replay`] makes the same replicas again, gives them the same, and says where they
//! first differ. The hosts call [`step`] in place of `Replica::step`: a [`Tape`] behind the [`Recorder`] hears what goes in and what
//! comes out. [`Writer`] is the tape that is a file, [`Comparison`] the one that holds a run against a recording.
//!
//! # The file
//!
//! One line of text that names the format, then chunks: bytes of payload, checksum of the payload, checksum of these two numbers
//! (four bytes each, little-endian, CRC-32), payload. The first payload is a [`Header`] as JSON, every other one a sequence of
//! [`Entry`]s in the codec of the wire. A file may end anywhere: a replica that is killed writes no end, and the last chunk may be
//! torn. Anything else that is not as it was written is an error.

mod comparison;
mod entry;
mod error;
mod header;
mod reader;
mod recorder;
mod replay;
mod writer;

pub use comparison::Comparison;
pub use entry::{Begin, End, Entry, Step};
pub use error::RecordingError;
pub use header::{FORMAT, Header};
pub use reader::{Ending, Reader};
pub use recorder::{Deviation, Recorder, Rerun, Tape, step};
pub use replay::{Audience, Difference, Disagreement, Replayed, replay};
pub use writer::{DEFAULT_LIMIT_MB, EXTENSION, MAX_LIMIT_MB, Writer, path_of};
