//! quorate: an emulated network on one Linux host. Each endpoint has a network namespace of its own, with the kernel's
//! real TCP; a router in user space between them delays, loses and queues the packets.
//!
//! [`Scheduler`] decides the fate of each packet; it is a state machine without I/O. [`Emulation`] is the namespaces,
//! the router's thread and the probes that measure what the router itself adds. `docs/EMULATION.md` describes it.

mod address;
mod emulation;
mod error;
mod namespace;
mod netlink;
mod packet;
mod plan;
mod probe;
mod router;
mod scheduler;

pub use address::{MAX_ENDS, address_of, end_at};
pub use emulation::{Emulation, Report};
pub use error::EmulationError;
pub use namespace::{Entered, KernelCounters, Namespace, TcpSettings, enter};
pub use packet::{Flow, Header, reflect};
pub use plan::{Change, DEFAULT_MTU_BYTES, Link, Normal, Plan};
pub use probe::Added;
pub use router::Priority;
pub use scheduler::{Counts, Delivery, MAX_HELD_BYTES, Scheduler};
