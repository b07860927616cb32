//! quorate: what every host of a replica does alike, without I/O.
//!
//! The node, the simulator, Twins and the tests of the core perform the same actions on different devices. Here are
//! the rules that do not depend on the devices: which states are kept for others ([`StateKeeper`]) and which messages
//! wait for the journal ([`DurabilityGate`]). Clock, disk, network and keys are each host's own (ADR 034).

mod gate;
mod replies;
mod states;

pub use gate::{DurabilityGate, Outgoing, Peers, split};
pub use replies::{Answers, DEFAULT_REPLY_CACHE_BYTES, ReplyCache, bad_expiry, refusal};
pub use states::{Chunks, Kept, MAX_UNCERTIFIED, StateKeeper};
