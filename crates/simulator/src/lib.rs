//! quorate: the simulator.
//!
//! The very same [`Replica`](quorate_consensus::Replica) as in the node, the same executor and the client library's own load, in virtual
//! time. A heap of events ordered by time and order of entry is all there is: no clock, no thread, no iteration over a hash table.
//! One seed decides everything; [`SimReport::trace_hash`] names what happened and is the same on every machine.
//!
//! Read [`world`](crate) from `run.rs`: it makes nodes, clients, links and oracles out of a [`SimSpec`], and lets the world run.
//! `docs/SIMULATOR.md` says how to write a network, and what is not modelled.

pub mod chaos;
mod charges;
pub mod chronicle;
mod clients;
mod clock;
pub mod costs;
pub mod faults;
pub mod hostile;
pub mod network;
mod node;
mod oracle;
mod parcel;
pub mod random;
mod run;
mod schedule;
mod signatures;
mod spec;
mod statements;
pub mod trace;
mod transcript;
mod world;

pub use chronicle::Chronicle;
pub use costs::CostTable;
pub use faults::{Leaves, Point};
pub use network::NetworkSpec;
pub use oracle::Complaint;
pub use quorate_transports::Wire;
pub use run::{
    Alter, SimReport, recording_header, run, run_altered, run_recorded, run_seeds, run_seeds_while, run_without_marks,
};
pub use spec::{Signatures, SimSpec, WorkloadFactory};
pub use world::{CATCH_UP_VIEW_TIMEOUTS, LIVENESS_VIEWS, Life};
