//! quorate: I/O-free code shared by all hosts of a replica.
//!
//! The node, the simulator, Twins and the tests of the core perform the same actions on different devices. This crate
//! contains the code that does not depend on the devices: the states kept for peers ([`StateKeeper`]), the messages
//! that wait for the journal ([`DurabilityGate`]), and for hosts that serve clients the [`desk`]. Each host has its own
//! clock, disk, network and keys (ADR 034, ADR 108). A [`recording`] contains a replica's inputs and actions.

// Declarations by `shared_settings` name this crate, also here.
extern crate self as quorate_hosting;

pub mod desk;
mod gate;
mod headroom;
mod iteration;
pub mod recording;
mod replies;
pub mod shared;
mod states;
mod wall_clock;

pub use gate::{DurabilityGate, Outgoing, Peers, split};
pub use headroom::Headroom;
pub use iteration::EventLoop;
pub use replies::{Answers, DEFAULT_REPLY_CACHE_BYTES, ReplyCache, bad_expiry, refusal};
pub use shared::{SharedSettings, client_terms};
pub use states::{Chunks, Kept, MAX_UNCERTIFIED, StateKeeper};
pub use wall_clock::WallClock;
