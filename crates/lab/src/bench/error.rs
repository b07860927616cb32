//! Why a benchmark came to nothing.

use crate::spec::SpecError;
use quorate_client::ConnectError;
use quorate_client::config::ConfigError;
use quorate_client::load::LoadError;
use quorate_client::workload::WorkloadError;
use quorate_node::{DISK_TROUBLE_STATUS, NodeError};
use quorate_types::ReplicaId;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use thiserror::Error;

/// Where free ports are looked for: below those that systems give to connections, or one could be taken while its replica is away.
pub(super) const PORTS: std::ops::Range<u16> = 10_000..21_000;

/// Whether a replica's process ended because its disk is full, fails, or may not be written.
fn is_disk_trouble(status: ExitStatus) -> bool {
    status.code() == Some(i32::from(DISK_TROUBLE_STATUS))
}

/// What went wrong, where, and what helps.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The spec cannot be run.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A replica cannot start, or cannot go on.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The clients cannot connect.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The clients' configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The load came to nothing.
    #[error("{0}")]
    Load(LoadError),
    /// There is no such workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The workload's commands mean nothing to the application.
    #[error(
        "workload `{workload}` sends key-value commands and the cluster runs `{application}`; use --workload fixed, or a cluster with application `kv`"
    )]
    Application {
        /// The workload.
        workload: String,
        /// What the cluster runs.
        application: String,
    },
    /// The operating system gives no thread.
    #[error("cannot start the clients' thread: {0}")]
    Thread(io::Error),
    /// The replicas' counters cannot be read.
    #[error("cannot read the replicas' counters: {0}")]
    Status(#[from] io::Error),
    /// A file or directory cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A replica's process cannot be started.
    #[error("cannot start the process of replica {replica}: {source}")]
    Spawn {
        /// The replica.
        replica: ReplicaId,
        /// What the operating system said.
        source: io::Error,
    },
    /// A replica's process ended although nobody killed it.
    #[error("replica {replica} ended by itself ({status}{}); it said:\n{log}", if is_disk_trouble(*.status) { ": its disk" } else { "" })]
    Ended {
        /// The replica.
        replica: ReplicaId,
        /// How.
        status: ExitStatus,
        /// The end of what it wrote.
        log: String,
    },
    /// A signal ended the run before there was anything to report.
    #[error("ended by a signal before anything was measured")]
    Interrupted,
    /// No run of free ports was found.
    #[error("found no {ports} consecutive free ports between {} and {}; name some with --base-port", PORTS.start, PORTS.end)]
    NoPorts {
        /// How many are needed.
        ports: u32,
    },
}

impl BenchError {
    /// Whether a replica's disk ended the run.
    pub fn is_disk_trouble(&self) -> bool {
        match self {
            BenchError::Node(error) => error.is_disk_trouble(),
            BenchError::Ended { status, .. } => is_disk_trouble(*status),
            _ => false,
        }
    }

    /// Whether what the caller gave cannot be used, as against what happened on the way.
    pub fn is_wrong_call(&self) -> bool {
        match self {
            BenchError::Spec(_) | BenchError::Workload(_) | BenchError::Application { .. } | BenchError::Config(_) => {
                true
            }
            BenchError::Connect(error) => matches!(error, ConnectError::Config(_)),
            BenchError::Node(error) => error.is_wrong_call(),
            _ => false,
        }
    }
}
