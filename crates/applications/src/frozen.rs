//! The whole state of an executor at some moment, held fast while it goes on executing.

use crate::application::Frozen;
use crate::history::History;
use crate::session::FrozenSessions;
use bytes::Bytes;
use quorate_types::{ClusterId, Encoder, Wire};

pub(crate) const SNAPSHOT_VERSION: u8 = 3;
/// Room for what is not the application's. More is found if that does not suffice.
const OTHER_BYTES: usize = 1 << 20;

/// The state of an executor as it was when this was made, to be encoded on any thread.
pub struct FrozenState {
    pub(crate) frontier: Bytes,
    pub(crate) cluster: ClusterId,
    pub(crate) application_name: &'static str,
    pub(crate) commands: u64,
    pub(crate) bytes_since_kept: u64,
    pub(crate) history: History,
    pub(crate) sessions: FrozenSessions,
    pub(crate) application: Frozen,
}

impl FrozenState {
    /// What [`Executor::adopt`](crate::Executor::adopt) takes: the replica's part, and the snapshot.
    pub fn encode(self) -> Bytes {
        let application = (self.application)();
        let mut out = Encoder::with_capacity(self.frontier.len() + application.len() + OTHER_BYTES);
        out.put_bytes(&self.frontier);
        out.put_u8(SNAPSHOT_VERSION);
        self.cluster.0.encode(&mut out);
        out.put_bytes(self.application_name.as_bytes());
        out.put_u64(self.commands);
        out.put_u64(self.bytes_since_kept);
        self.history.encode(&mut out);
        self.sessions.encode(&mut out);
        out.put_bytes(&application);
        out.finish()
    }

    /// What [`Executor::restore`](crate::Executor::restore) takes: the snapshot alone, in canonical form.
    pub fn encode_snapshot(self) -> Bytes {
        let frontier_bytes = size_of::<u32>() + self.frontier.len();
        self.encode().slice(frontier_bytes..)
    }
}
