//! Replicas as separate processes.

use crate::error::Error;
use crate::machine::{StateMachine, register};
use quorate_client::{CLIENT_CONFIG_FILE, ClientConfig};
use quorate_node::{LogObserver, NodeConfig, NodeError, interrupt, private, run_directory, testnet};
use quorate_types::{Committee, Status};
use std::path::{Path, PathBuf};

/// A new cluster, for [`write_cluster`].
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// Settings shared by all replicas. [`ClusterPlan::new`] sets the defaults.
    pub settings: NodeConfig,
    /// `HOST` or `HOST:PORT` of each replica. Replicas on the same host need different ports.
    pub hosts: Vec<String>,
    /// First port of hosts without one. Each replica takes four: for peers, for clients, for operators, and for
    /// monitors.
    pub base_port: u16,
}

impl ClusterPlan {
    /// Returns the plan of a cluster on this host, with the default settings.
    pub fn new(name: &str, replicas: usize, base_port: u16) -> ClusterPlan {
        ClusterPlan { settings: NodeConfig::template(name), hosts: vec!["127.0.0.1".to_owned(); replicas], base_port }
    }
}

/// Writes one directory per replica, with its configuration and new private keys, and `client.toml` for clients. The
/// directory must be empty or not exist. Returns the replicas' directories, for [`run_replica`].
///
/// # Errors
/// If the plan is invalid, or a file cannot be written.
pub fn write_cluster<S: StateMachine>(plan: &ClusterPlan, directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let application = register::<S>()?;
    let settings = NodeConfig { application, ..plan.settings.clone() };
    let places = testnet::places_on(&plan.hosts, plan.base_port)?;
    let net = testnet::write_at(&settings, places, directory)?;
    let config = client_config(&settings, &net.client_committee().map_err(NodeError::from)?);
    let path = directory.join(CLIENT_CONFIG_FILE);
    let written = private::write(&path, config.to_toml().as_bytes());
    written.map_err(|source| Error::Write { path, source })?;
    Ok(net.directories)
}

/// Runs the replica of a directory on this thread until it fails, or until the process receives SIGINT or SIGTERM, and
/// returns its last status. It logs with `tracing`: install a subscriber to see the log.
///
/// # Errors
/// If the directory is unusable, or the replica fails. The error says so if the replica must not be restarted.
pub fn run_replica<S: StateMachine>(directory: &Path) -> Result<Status, Error> {
    register::<S>()?;
    interrupt::install().map_err(|source| Error::Signals { source })?;
    Ok(run_directory(directory, Box::new(LogObserver::default()))?)
}

/// Returns the configuration of the clients of a cluster with these settings.
pub(crate) fn client_config(settings: &NodeConfig, committee: &Committee) -> ClientConfig {
    let consensus = &settings.consensus;
    ClientConfig::of(consensus.protocol, consensus.client_dissemination(), settings.of_clients(committee))
}
