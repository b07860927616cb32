//! Byzantine-fault-tolerant replication of your own application.
//!
//! A cluster of n replicas executes the same commands in the same order, and stays correct while up to f of them, fewer
//! than a third, fail in any way: they may crash, lie, or collude. You write a [`StateMachine`]; the engine orders its
//! commands, executes them on every replica, and returns results to clients on which f+1 replicas agree.
//!
//! ```
//! use quorate::prelude::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Default, Serialize, Deserialize)]
//! struct Counter(u64);
//!
//! impl StateMachine for Counter {
//!     const NAME: &'static str = "counter";
//!     type Command = u64;
//!     type Reply = u64;
//!     type Query = ();
//!     type Answer = u64;
//!
//!     fn apply(&mut self, _: &BlockContext, add: u64) -> u64 {
//!         self.0 += add;
//!         self.0
//!     }
//!
//!     fn query(&self, (): ()) -> u64 {
//!         self.0
//!     }
//! }
//!
//! // Four replicas in this process, connected over loopback. One of them may fail.
//! let cluster = LocalCluster::<Counter>::start(4)?;
//! let mut client = cluster.client()?;
//! assert_eq!(client.execute(&40)?, 40);
//! assert_eq!(client.execute(&2)?, 42);
//! # Ok::<(), quorate::Error>(())
//! ```
//!
//! - [`LocalCluster`] runs all replicas in one process: for tests, and to get started.
//! - [`run_replica`] runs one replica from a directory written by `quorate testnet` or [`write_cluster`].
//! - [`Client`] executes one command at a time, [`Pipeline`] many at once, from any thread or asynchronous task.
//! - [`load::run`] measures throughput and latency under a workload of your own.
//! - [`Application`] is the interface beneath [`StateMachine`], for applications with their own encodings, large states
//!   or parallel execution.
#![deny(missing_docs)]

mod client;
mod cluster;
mod error;
pub mod load;
mod machine;
mod replica;

pub use client::{Awaited, Client, Pending, Pipeline};
pub use cluster::LocalCluster;
pub use error::Error;
pub use machine::{StateMachine, kind, register};
pub use quorate_applications::{Application, ApplicationKind, BlockContext, Factory, RestoreError};
pub use quorate_client::{ClientConfig, ClientError, PipelineOptions};
pub use quorate_node::{NodeConfig, NodeError};
pub use quorate_types::{Command, FeatureLevel, Height, ReplicaId, Status};
pub use replica::{ClusterPlan, run_replica, write_cluster};

/// Imports for most programs.
pub mod prelude {
    pub use crate::{BlockContext, Client, Error, FeatureLevel, LocalCluster, Pipeline, StateMachine};
}
