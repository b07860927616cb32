//! quorate: recordings of replicas, and their replay.
//!
//! A replica is a function of its configuration, its identity, a salt, and the times and inputs that it receives. A
//! recording stores these, and a fingerprint of each resulting action. [`replay`] constructs the same replicas, passes
//! them the same inputs, and reports the first difference. The hosts call [`step`] instead of `Replica::step`, and the
//! [`Recorder`] passes inputs and actions to a [`Tape`]: a [`Writer`] writes them to a file, a [`Comparison`] compares
//! them with a recording.
//!
//! # File format
//!
//! The first line names the format. Chunks follow: length of the payload, checksum of the payload, checksum of these
//! two numbers (four bytes each, little-endian, CRC-32), payload. The first payload is a [`Header`] as JSON, all others
//! are sequences of [`Entry`]s in the wire codec. A file may end anywhere, because a killed replica writes no end and
//! may leave an incomplete last chunk. Any other deviation is an error.

mod comparison;
mod entry;
mod error;
mod header;
mod reader;
mod recorder;
mod replay;
mod requests;
mod writer;

pub use comparison::Comparison;
pub use entry::{Begin, End, Entry, Step};
pub use error::RecordingError;
pub use header::{FORMAT, Header};
pub use reader::{Ending, Reader};
pub use recorder::{Deviation, Recorder, Rerun, Tape, step};
pub use replay::{Audience, Difference, Disagreement, Replayed, replay};
pub use requests::{Request, Requests};
pub use writer::{DEFAULT_LIMIT_MB, EXTENSION, MAX_LIMIT_MB, Writer, path_of};
