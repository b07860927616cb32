//! quorate: deterministic simulator of a cluster in virtual time.
//!
//! Runs the [`Replica`](quorate_consensus::Replica) and executor of the node, and the load of the client library.
//! Events are ordered by time, and then by insertion; there is no clock, no thread and no iteration over a hash table.
//! The seed determines everything, and [`SimReport::trace_hash`] is the same on every machine.
//!
//! Start reading at `run.rs`, which builds nodes, clients, links and oracles from a [`SimSpec`] and runs the world.
//! `docs/SIMULATOR_FILES.md` describes network files, `docs/SIMULATOR.md` the limits of the model. [`models`] computes
//! some of the same figures in closed form.

pub mod chaos;
mod charges;
pub mod chronicle;
mod clients;
mod clock;
pub mod costs;
pub mod hostile;
mod keys;
pub mod ledger;
mod levels;
pub mod links;
pub mod models;
pub mod network;
mod node;
mod numbers;
pub mod off_path;
mod oracle;
mod parcel;
pub mod probes;
mod run;
mod schedule;
pub mod scripted;
mod shares;
mod signatures;
mod spec;
mod statements;
pub mod steps;
mod trace;
mod transcript;
pub mod work;
mod world;

pub use chronicle::Chronicle;
pub use clients::{ClientMachine, LatencyMs};
pub use costs::CostTable;
pub use network::faults::{self, Leaves, Point};
pub use network::{ClientsAt, MAX_CLIENT_MACHINES, MachineSpec, NetworkSpec, place};
pub use quorate_adversary::oracles::{Property, Violation};
pub use quorate_network::transports::Wire;
pub use run::{
    Alter, SimReport, recording_header, run, run_altered, run_recorded, run_recorded_while, run_seeds, run_seeds_while,
    run_without_marks,
};
pub use spec::{Signatures, SimSpec, WorkloadFactory};
pub use world::{CATCH_UP_VIEW_TIMEOUTS, CONNECTED_WITHIN_ROUND_TRIPS, Counts, LIVENESS_VIEWS, Life, Reading, Shares};
