//! quorate: an emulated network on one Linux host. Each endpoint has a network namespace of its own, with the kernel's
//! real TCP; between them, the kernel's netem or a router in user space delays, loses and queues the packets.
//!
//! In the router, [`Scheduler`] decides the fate of each packet; it is a state machine without I/O. [`Emulation`] owns
//! the namespaces, the emulator between them, and the probes that measure its overhead. `docs/EMULATION.md` describes
//! it.

mod address;
mod emulated_network;
mod error;
mod namespace;
mod netem;
mod netlink;
mod packet;
mod plan;
mod probe;
mod router;
mod scheduler;

pub use address::{MAX_ENDS, address_of, end_at};
pub use emulated_network::{Emulation, Emulator, Report};
pub use error::{EmulationError, NetemStep};
pub use namespace::{Entered, KernelCounters, Namespace, TcpSettings, enter};
pub use netem::{Discipline, Disciplines, lack};
pub use packet::{Flow, Header, reflect};
pub use plan::{Change, DEFAULT_MTU_BYTES, Link, Normal, Plan};
pub use probe::Added;
pub use router::Priority;
pub use scheduler::{Counts, Delivery, MAX_HELD_BYTES, Scheduler};
