//! A replica without threads or sockets, driven by a test that controls its clients and time.

use crate::assemble::{Assembled, Attachment, assemble};
use crate::config::NodeConfig;
use crate::error::NodeError;
use crate::host::RunningNode;
use crate::observer::NoObserver;
use crate::testnet;
use quorate_network::transports::Transport;
use quorate_storage::JournalKind;
use quorate_types::{ReplicaThreads, Time};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

/// The only replica of a cluster. Its journal is in memory.
pub struct ScriptedReplica(Box<dyn RunningNode>);

impl ScriptedReplica {
    /// Starts a replica with new keys and the settings of `template`.
    ///
    /// # Errors
    /// [`NodeError`] for an invalid configuration.
    pub fn start(template: &NodeConfig, transport: Box<dyn Transport>) -> Result<ScriptedReplica, NodeError> {
        let (mut config, keys) = testnet::generate(template, &[SocketAddr::from((Ipv4Addr::LOCALHOST, 1))])?.remove(0);
        config.journal.kind = JournalKind::Memory;
        config.replica_threads = ReplicaThreads::Count(1);
        let attachment = Attachment::Transport(transport);
        let assembled = assemble(&config, Path::new(""), keys, attachment, None, Box::new(NoObserver))?;
        let Assembled { mut node, .. } = assembled;
        node.begin().map_err(|source| NodeError::Host { replica: config.replica, source })?;
        Ok(ScriptedReplica(node))
    }

    /// Runs an iteration: handles the events of the transport, and sends the replies.
    ///
    /// # Panics
    /// If the replica fails.
    pub fn turn(&mut self, now: Time) {
        self.0.turn_at(now).expect("a journal in memory does not fail");
    }
}
