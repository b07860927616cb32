//! Links, and streams over them.

mod end;
mod links;
mod spec;
mod stream;

pub use end::End;
pub use links::{Fate, Links};
pub use spec::{Bandwidth, Delay, Delivery, DeliverySpec, Jitter, LinkSpec, Loss, NetworkSpec, Packets, Topology};
pub use stream::{Segment, Stream, StreamOptions, Todo};
