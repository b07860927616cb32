//! All replicas of a cluster in one process.

use crate::client::{Client, Pipeline};
use crate::error::Error;
use crate::machine::{StateMachine, kind};
use crate::replica::client_config;
use quorate_applications::ApplicationKind;
use quorate_client::{ClientConfig, PipelineOptions};
use quorate_node::{EmbeddedCluster, NoObserver, NodeConfig};
use quorate_types::{ReplicaId, Status};
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};

/// Name of local clusters. Only their own clients connect to them.
const NAME: &str = "local";

/// A cluster whose replicas are threads of this process, connected over loopback. Dropping it stops them. Journals are
/// in memory unless the configuration selects files.
pub struct LocalCluster<S> {
    cluster: EmbeddedCluster,
    config: ClientConfig,
    machine: PhantomData<fn() -> S>,
}

impl<S: StateMachine> LocalCluster<S> {
    /// Starts a cluster with this many replicas and the default settings. It tolerates (n-1)/3 faulty ones, for example
    /// 1 of 4.
    ///
    /// # Errors
    /// If the number is 0 or too large, or a port or a thread is not available.
    pub fn start(replicas: usize) -> Result<LocalCluster<S>, Error> {
        LocalCluster::start_with(replicas, |_| ())
    }

    /// Starts a cluster with other settings: `configure` changes the settings shared by all replicas.
    ///
    /// # Errors
    /// If the settings are invalid, or a port or a thread is not available.
    pub fn start_with(replicas: usize, configure: impl FnOnce(&mut NodeConfig)) -> Result<LocalCluster<S>, Error> {
        let (cluster, config) = start(kind::<S>(), replicas, configure)?;
        Ok(LocalCluster { cluster, config, machine: PhantomData })
    }

    /// Connects a client.
    ///
    /// # Errors
    /// If too few replicas are running.
    pub fn client(&self) -> Result<Client<S>, Error> {
        Client::connect(&self.config)
    }

    /// Connects a client with many commands outstanding.
    ///
    /// # Errors
    /// If too few replicas are running.
    pub fn pipeline(&self) -> Result<Pipeline<S>, Error> {
        Pipeline::connect(&self.config, PipelineOptions::default())
    }

    /// Returns the configuration of the cluster's clients.
    pub fn client_config(&self) -> &ClientConfig {
        &self.config
    }

    /// Stops a replica as in a crash, to test your program's reaction. Returns its last status.
    ///
    /// # Errors
    /// If it has already failed.
    ///
    /// # Panics
    /// If there is no such replica, or it was already stopped.
    pub fn stop(&mut self, replica: ReplicaId) -> Result<Status, Error> {
        Ok(self.cluster.stop(replica)?)
    }

    /// Stops all replicas, and returns the last status of each that was still running.
    ///
    /// # Errors
    /// The first error of a replica.
    pub fn shut_down(self) -> Result<Vec<(ReplicaId, Status)>, Error> {
        let ended = self.cluster.shut_down().into_iter();
        ended.map(|(replica, status)| Ok((replica, status?))).collect()
    }
}

fn start(
    application: ApplicationKind,
    replicas: usize,
    configure: impl FnOnce(&mut NodeConfig),
) -> Result<(EmbeddedCluster, ClientConfig), Error> {
    let mut template = NodeConfig::template(NAME);
    configure(&mut template);
    template.application = application;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let cluster = EmbeddedCluster::start(&template, &vec![any_port; replicas], |_| (), || Box::new(NoObserver))?;
    let config = client_config(&template, cluster.committee());
    Ok((cluster, config))
}
