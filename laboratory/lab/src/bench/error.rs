//! Errors of benchmarks.

use crate::emulation::EmulationError;
use crate::sim::SimError;
use crate::spec::SpecError;
use quorate_client::ConnectError;
use quorate_client::config::ConfigError;
use quorate_client::load::LoadError;
use quorate_client::workload::WorkloadError;
use quorate_node::{DISK_TROUBLE_STATUS, NodeError};
use quorate_types::{Fault, ReplicaId};
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use thiserror::Error;

/// Range in which to search for free ports. It is below the range from which systems assign ports to connections, which
/// could take a replica's port while the replica is down.
pub(super) const PORTS: std::ops::Range<u16> = 10_000..21_000;

/// Returns whether a replica's process ended because its disk is full, fails or is not writable.
fn is_disk_trouble(status: ExitStatus) -> bool {
    status.code() == Some(i32::from(DISK_TROUBLE_STATUS))
}

/// Reason why a benchmark could not start or finish.
#[derive(Debug, Error)]
pub enum BenchError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Node(Box<NodeError>),
    #[error(transparent)]
    Connect(Box<ConnectError>),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The application does not support the workload's commands.
    #[error(
        "workload `{workload}` sends key-value commands, but the cluster runs `{application}`; \
         help: use --workload fixed, or a cluster with application `kv`"
    )]
    Application { workload: String, application: String },
    #[error("--cores: cannot pin the run to these cores: {0}")]
    Cores(io::Error),
    #[error("cannot start the clients' thread: {0}")]
    Thread(io::Error),
    #[error("cannot read the replicas' counters: {0}")]
    Status(#[from] io::Error),
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot start the process of replica {replica}: {source}")]
    Spawn { replica: ReplicaId, source: io::Error },
    /// A replica's process ended by itself.
    #[error(
        "replica {replica} ended by itself ({status}{}); its last output:\n{log}",
        if is_disk_trouble(*.status) { ": disk failure" } else { "" }
    )]
    Ended {
        replica: ReplicaId,
        status: ExitStatus,
        /// The end of its output.
        log: String,
    },
    /// The network file of `--host emulated`.
    #[error(transparent)]
    Network(#[from] SimError),
    #[error("--host emulated: {source}; help: {}", emulation_help(.source, .network))]
    Emulation { network: String, source: EmulationError },
    /// Obstacles on the hosts of `--host deployed`.
    #[error("{}", .0.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"))]
    Hosts(Vec<Fault>),
    /// The hosts file.
    #[error(transparent)]
    HostsFile(#[from] Fault),
    #[error("--host deployed: {0}")]
    Ssh(io::Error),
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    /// No client machine has a report.
    #[error("no client machine reported a measurement; help: see to them, and look at the output of `--logs DIR`")]
    NoReport,
    /// A signal ended the run before anything was measured.
    #[error("ended by a signal before anything was measured")]
    Interrupted,
    #[error(
        "no {ports} consecutive free ports between {} and {}; help: set --base-port",
        PORTS.start, PORTS.end
    )]
    NoPorts {
        /// Number of ports needed.
        ports: u32,
    },
}

impl From<NodeError> for BenchError {
    fn from(error: NodeError) -> BenchError {
        BenchError::Node(Box::new(error))
    }
}

impl From<ConnectError> for BenchError {
    fn from(error: ConnectError) -> BenchError {
        BenchError::Connect(Box::new(error))
    }
}

/// Returns the remedy if a network cannot be emulated.
fn emulation_help(error: &EmulationError, network: &str) -> String {
    match error {
        EmulationError::Lack(_) => "set --emulator router".to_owned(),
        EmulationError::Netem { .. } => {
            "install the kernel's modules veth, sch_htb, sch_netem and cls_u32, or set --emulator router".to_owned()
        }
        _ => format!(
            "run it as root, or as the root of a user namespace with `unshare --user --map-root-user quorate bench \
             ..`, or simulate it: quorate sim --network {network}"
        ),
    }
}

impl BenchError {
    /// Returns whether a disk fault of a replica ended the run.
    pub fn is_disk_trouble(&self) -> bool {
        match self {
            BenchError::Node(error) => error.is_disk_trouble(),
            BenchError::Ended { status, .. } => is_disk_trouble(*status),
            _ => false,
        }
    }

    /// Returns whether the arguments are wrong; false if the run itself failed.
    pub fn is_wrong_call(&self) -> bool {
        match self {
            BenchError::Spec(_)
            | BenchError::Workload(_)
            | BenchError::Application { .. }
            | BenchError::Config(_)
            | BenchError::HostsFile(_) => true,
            BenchError::Network(error) => error.is_wrong_call(),
            BenchError::Emulation { source: EmulationError::Lack(_), .. } => true,
            BenchError::Connect(error) => matches!(**error, ConnectError::Config(_)),
            BenchError::Node(error) => error.is_wrong_call(),
            BenchError::Write { source, .. } => quorate_types::files::is_named_wrongly(source),
            _ => false,
        }
    }
}
