//! All replicas of a cluster in one process: a thread each, and real sockets between them.

use crate::assemble::{Assembled, SharedKeys, assemble};
use crate::config::NodeConfig;
use crate::descriptors;
use crate::durability;
use crate::error::{HostError, NodeError};
use crate::host::{Order, Orders};
use crate::observer::Observer;
use crate::testnet;
use quorate_crypto::ReplicaKeys;
use quorate_storage::JournalKind;
use quorate_transports::Endpoint;
use quorate_types::{Committee, ReplicaId, Status};
use std::any::Any;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// A replica on a thread of its own.
struct NodeThread {
    replica: ReplicaId,
    orders: Orders,
    waker: Arc<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<Result<Status, HostError>>>,
}

impl NodeThread {
    fn start(replica: ReplicaId, assembled: Assembled) -> Result<NodeThread, NodeError> {
        let Assembled { node, orders, waker, .. } = assembled;
        let builder = thread::Builder::new().name(format!("replica-{replica}"));
        let thread = builder.spawn(move || node.run()).map_err(|source| NodeError::Thread { replica, source })?;
        Ok(NodeThread { replica, orders, waker, thread: Some(thread) })
    }

    fn order(&self, order: Order) {
        self.orders.give(order);
        (self.waker)();
    }

    /// Waits for the end; nothing if that was done before.
    fn join(&mut self) -> Option<Result<Status, NodeError>> {
        let replica = self.replica;
        let thread = self.thread.take()?;
        Some(match thread.join() {
            Ok(Ok(status)) => Ok(status),
            Ok(Err(source)) => Err(NodeError::Host { replica, source }),
            Err(panic) => Err(NodeError::Panicked { replica, message: panic_message(&*panic) }),
        })
    }
}

/// A cluster in this process, or a part of one. Dropping it stops its replicas. Their journals are in memory, unless a configuration
/// asks for files and names an absolute directory for them.
pub struct EmbeddedCluster {
    committee: Committee,
    nodes: Vec<NodeThread>,
}

impl EmbeddedCluster {
    /// Starts a replica at each of `addresses` (with port 0, at a free one), with new keys and the settings of `template`; its
    /// `replica`, `members` and `listen` count for nothing. `vary` changes the settings of single replicas, as for faults, and may give
    /// each the directory of a new journal; `observer` makes each an observer.
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

    /// Starts those replicas of a cluster that are to live in this process, each with its configuration, keys and endpoint; at least
    /// one, all of the same committee. The others live elsewhere.
    pub fn start_replicas(
        nodes: impl Iterator<Item = ((NodeConfig, ReplicaKeys), Endpoint)>,
        observer: impl Fn() -> Box<dyn Observer>,
    ) -> Result<EmbeddedCluster, NodeError> {
        descriptors::raise_limit();
        let mut shared: Option<(Committee, SharedKeys)> = None;
        let mut ready = Vec::new();
        for ((mut config, keys), endpoint) in nodes {
            if !keeps_journal(&config) {
                config.journal.kind = JournalKind::Memory;
            }
            let (_, public_keys) = match &shared {
                Some(shared) => shared,
                None => {
                    config.validate()?;
                    let committee = config.committee()?;
                    let public_keys = SharedKeys::new(config.scheme, &committee)?;
                    shared.insert((committee, public_keys))
                }
            };
            let assembled = assemble(&config, Path::new(""), keys, Some(endpoint), Some(public_keys), observer())?;
            ready.push((config.replica, assembled));
        }
        let (committee, _) = shared.expect("at least one replica is started");
        let mut cluster = EmbeddedCluster { committee, nodes: Vec::with_capacity(ready.len()) };
        for (replica, assembled) in ready {
            cluster.nodes.push(NodeThread::start(replica, assembled)?);
        }
        Ok(cluster)
    }

    /// The members, their keys and addresses: what a client needs to know.
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// Stops a replica as a crash would: nothing that is queued is sent, its sockets are closed. Returns its last counters.
    ///
    /// # Panics
    /// If there is no such replica, or it was stopped before.
    pub fn stop(&mut self, replica: ReplicaId) -> Result<Status, NodeError> {
        let node = self.nodes.iter_mut().find(|node| node.replica == replica);
        let node = node.expect("the replica was started here");
        node.order(Order::Crash);
        node.join().expect("a replica is stopped once")
    }

    /// The replicas that ended although nobody stopped them: a fault, which [`EmbeddedCluster::shut_down`] reports.
    pub fn ended(&self) -> Vec<ReplicaId> {
        let ended = |node: &&NodeThread| node.thread.as_ref().is_some_and(|thread| thread.is_finished());
        self.nodes.iter().filter(ended).map(|node| node.replica).collect()
    }

    /// Waits for the replicas that [ended](EmbeddedCluster::ended) and returns the first error that ended one.
    pub fn report_ended(&mut self) -> Result<(), NodeError> {
        let ended = self.ended();
        for node in self.nodes.iter_mut().filter(|node| ended.contains(&node.replica)) {
            node.join().transpose()?;
        }
        Ok(())
    }

    /// Stops all replicas that still run, after what they have queued is written, and returns the last counters of each.
    pub fn shut_down(mut self) -> Vec<(ReplicaId, Result<Status, NodeError>)> {
        self.nodes.iter().for_each(|node| node.order(Order::Finish));
        self.nodes.iter_mut().filter_map(|node| Some((node.replica, node.join()?))).collect()
    }
}

impl Drop for EmbeddedCluster {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|node| node.order(Order::Crash));
        for node in &mut self.nodes {
            // Who drops a cluster without shutting it down does not ask how its replicas ended.
            let _ = node.join();
        }
    }
}

/// Whether a replica of this process writes its journal to a disk. A relative directory is meant from a replica's own, and replicas
/// that live in a process have none.
fn keeps_journal(config: &NodeConfig) -> bool {
    config.journal.kind == JournalKind::File && config.journal.directory.is_absolute()
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it left no message".to_owned())
}
