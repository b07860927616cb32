//! Classes of frames between replicas.

/// Class of a frame for a replica. Transports order their queues by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    Ordinary,
    /// A vote for which a quorum suffices. A transport may send votes such that they can be lost and wait for no other
    /// frame; otherwise they are ordinary frames.
    Vote,
    /// A long frame, or one that must not arrive before such frames. Ordinary frames overtake it where the transport
    /// has separate queues or streams.
    Bulk,
}
