//! The layer below a channel.

use std::fmt;

/// Service that a transport provides to a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carriage {
    /// All bytes, in order.
    Stream,
    /// Packets, which may be lost, duplicated or reordered.
    Datagrams,
}

impl fmt::Display for Carriage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Carriage::Stream => "a stream",
            Carriage::Datagrams => "datagrams",
        })
    }
}
