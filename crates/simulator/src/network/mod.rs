//! Links, and what carries messages over them.

mod links;
mod spec;
mod stream;

pub use links::{Fate, Links};
pub use spec::{
    Bandwidth, Delay, End, Jitter, LinkSpec, Loss, NetworkSpec, Packets, Topology, Transport, TransportKind,
};
pub use stream::{Letters, Segment, Stream, StreamOptions, Todo};
