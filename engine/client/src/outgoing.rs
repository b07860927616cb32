//! Frames sent by a client.

use bytes::Bytes;
use quorate_types::ReplicaId;

/// Recipients of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    All,
    One(ReplicaId),
}

/// Frame to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    pub to: Destination,
    /// Encoded [`ClientRequest`](quorate_types::ClientRequest), shared by all recipients.
    pub frame: Bytes,
}
