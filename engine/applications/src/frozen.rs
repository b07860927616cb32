//! The frozen state of an executor, which continues to execute.

use crate::application::Frozen;
use crate::history::History;
use crate::levels::Reached;
use crate::panics::{Call, named};
use crate::session::FrozenSessions;
use bytes::Bytes;
use quorate_types::{Encoder, EpochId, Wire};

/// Format of a state that always had feature level 0.
pub const SNAPSHOT_VERSION: u8 = 5;
/// Format of a state with feature levels: [`Reached`] follows the version, and everything else of the older format.
pub const SNAPSHOT_VERSION_WITH_LEVELS: u8 = 6;
/// Initial capacity for everything except the application's state, in bytes; the buffer grows if needed.
const OTHER_BYTES: usize = 1 << 20;

/// Frozen state of an executor, which any thread can encode.
pub struct FrozenState {
    pub(crate) frontier: Bytes,
    pub(crate) epoch: EpochId,
    pub(crate) application_name: &'static str,
    pub(crate) reached: Reached,
    pub(crate) time_ms: u64,
    pub(crate) commands: u64,
    pub(crate) bytes_since_kept: u64,
    pub(crate) history: History,
    pub(crate) sessions: FrozenSessions,
    pub(crate) application: Frozen,
}

impl FrozenState {
    /// Encodes the replica's part and the snapshot, for [`Executor::adopt`](crate::Executor::adopt).
    pub fn encode(self) -> Bytes {
        let height = self.history.height();
        let application = named(self.application_name, height, Call::Snapshot, self.application);
        let mut out = Encoder::with_capacity(self.frontier.len() + application.len() + OTHER_BYTES);
        out.put_bytes(&self.frontier);
        match self.reached == Reached::default() {
            true => out.put_u8(SNAPSHOT_VERSION),
            false => {
                out.put_u8(SNAPSHOT_VERSION_WITH_LEVELS);
                self.reached.encode(&mut out);
            }
        }
        self.epoch.0.encode(&mut out);
        out.put_bytes(self.application_name.as_bytes());
        out.put_u64(self.time_ms);
        out.put_u64(self.commands);
        out.put_u64(self.bytes_since_kept);
        self.history.encode(&mut out);
        self.sessions.encode(&mut out);
        out.put_bytes(&application);
        out.finish()
    }

    /// Encodes only the snapshot, in canonical form, for [`Executor::restore`](crate::Executor::restore).
    pub fn encode_snapshot(self) -> Bytes {
        let frontier_bytes = size_of::<u32>() + self.frontier.len();
        self.encode().slice(frontier_bytes..)
    }
}
