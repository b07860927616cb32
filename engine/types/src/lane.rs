//! Classes of frames between replicas.

/// Class of a frame for a replica, by which transports order their queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    Ordinary,
    /// A vote for which a quorum suffices. A transport may send votes separately, so that they wait for no other frame
    /// but may be lost; otherwise they are ordinary frames.
    Vote,
    /// A long frame, or one that must not arrive before long frames. Ordinary frames overtake it if the transport has
    /// separate queues or streams.
    Bulk,
}
