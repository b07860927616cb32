//! All replicas of a cluster in one process: one thread each, connected by real sockets.

use crate::assemble::{self, Assembled, Attachment, Shared, assemble};
use crate::config::NodeConfig;
use crate::descriptors;
use crate::durability;
use crate::error::{HostError, NodeError};
use crate::host::{Order, Orders};
use crate::monitoring::MonitoringServer;
use crate::observer::Observer;
use crate::testnet;
use quorate_applications::ApplicationPanic;
use quorate_crypto::ReplicaKeys;
use quorate_network::transports::Endpoint;
use quorate_storage::JournalKind;
use quorate_types::{Committee, ReplicaId, ReplicaThreads, Status};
use std::any::Any;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// A replica on its own thread.
struct NodeThread {
    replica: ReplicaId,
    orders: Orders,
    waker: Arc<dyn Fn() + Send + Sync>,
    monitoring: Option<MonitoringServer>,
    thread: Option<JoinHandle<Result<Status, HostError>>>,
}

impl NodeThread {
    fn start(replica: ReplicaId, assembled: Assembled) -> Result<NodeThread, NodeError> {
        let Assembled { node, orders, waker, monitoring, .. } = assembled;
        let builder = thread::Builder::new().name(format!("replica-{replica}"));
        let thread = builder.spawn(move || node.run()).map_err(|source| NodeError::Thread { replica, source })?;
        Ok(NodeThread { replica, orders, waker, monitoring, thread: Some(thread) })
    }

    fn order(&self, order: Order) {
        self.orders.give(order);
        (self.waker)();
    }

    /// Waits for the thread to end. `None` if it was already joined.
    fn join(&mut self) -> Option<Result<Status, NodeError>> {
        let replica = self.replica;
        let thread = self.thread.take()?;
        self.monitoring = None;
        Some(match thread.join() {
            Ok(Ok(status)) => Ok(status),
            Ok(Err(source)) => Err(NodeError::Host { replica, source }),
            Err(panic) => Err(ended_by(replica, panic)),
        })
    }
}

/// A cluster, or part of one, in this process. Dropping it stops its replicas. Journals are in memory unless a
/// configuration selects files with an absolute directory.
pub struct EmbeddedCluster {
    committee: Committee,
    nodes: Vec<NodeThread>,
}

impl EmbeddedCluster {
    /// Starts a replica at each of `addresses` (port 0 picks a free one), with new keys and the settings of `template`;
    /// `replica`, `members` and `listen` of the template are ignored. `vary` changes the settings of individual
    /// replicas, for example to inject faults, and may give each the directory of a new journal. `observer` creates an
    /// observer for each.
    pub fn start(
        template: &NodeConfig,
        addresses: &[SocketAddr],
        vary: impl Fn(&mut NodeConfig),
        observer: impl Fn() -> Box<dyn Observer>,
    ) -> Result<EmbeddedCluster, NodeError> {
        let wire = template.wire();
        let mut endpoints = Vec::with_capacity(addresses.len());
        let mut bound = Vec::with_capacity(addresses.len());
        for address in addresses.iter().copied() {
            let fail = |source| NodeError::Listen { key: "listen", address: address.into(), source };
            let endpoint = wire.listen(&address.into()).map_err(fail)?;
            bound.push(endpoint.address().map_err(fail)?);
            endpoints.push(endpoint);
        }
        let mut nodes = testnet::generate(template, &bound)?;
        for (config, _) in &mut nodes {
            vary(config);
            if keeps_journal(config) {
                durability::mark_as_new(&config.journal.directory)?;
            }
        }
        EmbeddedCluster::start_replicas(nodes.into_iter().zip(endpoints), observer)
    }

    /// Starts the replicas of a cluster that run in this process, each with its configuration, keys and endpoint. Needs
    /// at least one, all of the same committee; the other members run elsewhere.
    pub fn start_replicas(
        nodes: impl Iterator<Item = ((NodeConfig, ReplicaKeys), Endpoint)>,
        observer: impl Fn() -> Box<dyn Observer>,
    ) -> Result<EmbeddedCluster, NodeError> {
        descriptors::raise_limit();
        let mut shared: Option<(Committee, Shared)> = None;
        let mut ready = Vec::new();
        let (nodes, cores) = (nodes.collect::<Vec<_>>(), assemble::cores());
        let replicas = nodes.len();
        for ((mut config, keys), endpoint) in nodes {
            // They share the cores of this process.
            config.replica_threads = ReplicaThreads::Count(config.replica_threads.of(cores, replicas, config.work()));
            if !keeps_journal(&config) {
                config.journal.kind = JournalKind::Memory;
            }
            let (_, public_keys) = match &shared {
                Some(shared) => shared,
                None => {
                    config.validate()?;
                    let committee = config.committee()?;
                    let public_keys = Shared::new(config.signatures(), &committee)?;
                    shared.insert((committee, public_keys))
                }
            };
            let attachment = Attachment::Listen(Some(endpoint));
            let assembled = assemble(&config, Path::new(""), keys, attachment, Some(public_keys), observer())?;
            ready.push((config.replica, assembled));
        }
        let (committee, _) = shared.expect("at least one replica is started");
        let mut cluster = EmbeddedCluster { committee, nodes: Vec::with_capacity(ready.len()) };
        for (replica, assembled) in ready {
            cluster.nodes.push(NodeThread::start(replica, assembled)?);
        }
        Ok(cluster)
    }

    /// Returns the members with their keys and addresses, which clients need.
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// Stops a replica like a crash: queued messages are lost and its sockets are closed. Returns its final counters.
    ///
    /// # Panics
    /// If there is no such replica, or it was already stopped.
    pub fn stop(&mut self, replica: ReplicaId) -> Result<Status, NodeError> {
        let node = self.nodes.iter_mut().find(|node| node.replica == replica);
        let node = node.expect("the replica was started here");
        node.order(Order::Crash);
        node.join().expect("a replica is stopped once")
    }

    /// Returns the replicas that stopped by themselves. [`EmbeddedCluster::shut_down`] reports their errors.
    pub fn ended(&self) -> Vec<ReplicaId> {
        let ended = |node: &&NodeThread| node.thread.as_ref().is_some_and(|thread| thread.is_finished());
        self.nodes.iter().filter(ended).map(|node| node.replica).collect()
    }

    /// Joins the replicas that [stopped by themselves](EmbeddedCluster::ended) and returns the first error.
    pub fn report_ended(&mut self) -> Result<(), NodeError> {
        let ended = self.ended();
        for node in self.nodes.iter_mut().filter(|node| ended.contains(&node.replica)) {
            node.join().transpose()?;
        }
        Ok(())
    }

    /// Stops all running replicas after they have written everything queued, and returns the final counters of each.
    pub fn shut_down(mut self) -> Vec<(ReplicaId, Result<Status, NodeError>)> {
        self.nodes.iter().for_each(|node| node.order(Order::Finish));
        self.nodes.iter_mut().filter_map(|node| Some((node.replica, node.join()?))).collect()
    }
}

impl Drop for EmbeddedCluster {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|node| node.order(Order::Crash));
        for node in &mut self.nodes {
            // Dropping without `shut_down` discards the replicas' results.
            let _ = node.join();
        }
    }
}

/// Returns whether a replica of this process writes its journal to disk. A relative directory is relative to a
/// replica's home, and embedded replicas have none.
fn keeps_journal(config: &NodeConfig) -> bool {
    config.journal.kind == JournalKind::File && config.journal.directory.is_absolute()
}

/// Returns the error of a replica whose thread, or helper thread, panicked.
pub(crate) fn ended_by(replica: ReplicaId, panic: Box<dyn Any + Send>) -> NodeError {
    let panic = match panic.downcast::<ApplicationPanic>() {
        Ok(panic) => return NodeError::Host { replica, source: HostError::Application(panic) },
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = text.or_else(|| panic.downcast_ref::<String>().cloned());
    NodeError::Panicked { replica, message: message.unwrap_or_else(|| "no panic message".to_owned()) }
}
