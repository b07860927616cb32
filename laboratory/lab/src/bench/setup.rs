//! Settings of the replicas of a benchmark, computed once from its specification.

use super::error::BenchError;
use super::scratch::Directory;
use crate::affinity;
use crate::recording;
use crate::spec::{BenchSpec, Fault, Host, Interval, JournalKind, Retention, When};
use quorate_applications::ApplicationKind;
use quorate_node::{Laboratory, NodeConfig, RecordingConfig};
use quorate_types::{ReplicaId, ReplicaThreads};
use std::net::{Ipv4Addr, SocketAddr};

/// Replicas to start.
pub struct Setup {
    pub host: Host,
    /// Port of the first process; with 0 free ones are chosen.
    pub base_port: u16,
    /// Addresses of threads, on this host; with port 0 the system chooses each port.
    pub addresses: Vec<SocketAddr>,
    /// Settings of all replicas.
    pub template: NodeConfig,
    /// Settings that differ between replicas, one entry for each.
    own: Vec<Own>,
}

struct Own {
    laboratory: Option<Laboratory>,
    recording: Option<RecordingConfig>,
}

impl Setup {
    /// Computes the settings, and removes the recordings of an earlier run.
    ///
    /// # Errors
    /// If recordings cannot be removed, or have no directory.
    pub fn of(spec: &BenchSpec) -> Result<Setup, BenchError> {
        recording::make_room(spec).map_err(|(path, source)| BenchError::Write { path, source })?;
        let own =
            |replica| Own { laboratory: laboratory(spec, replica), recording: recording::of_replica(spec, replica) };
        let mut template = spec.template();
        let (cores, replicas) = (affinity::available(), spec.quorum().replicas());
        let threads = spec.node.replica_threads.of(cores, replicas, spec.replica_work());
        template.replica_threads = ReplicaThreads::Count(threads);
        let own = (0..spec.replicas as u16).map(|replica| own(ReplicaId(replica))).collect();
        let port = |replica: u16| if spec.base_port == 0 { 0 } else { spec.base_port + replica };
        let address = |replica: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port(replica)));
        let addresses = (0..spec.replicas as u16).map(address).collect();
        Ok(Setup { host: spec.host, base_port: spec.base_port, addresses, template, own })
    }

    /// Computes the settings of replicas of a key-value store that keep their promises in files, so that they can be
    /// killed and restarted. `retention` limits the blocks that they keep for peers that were down.
    ///
    /// # Errors
    /// Those of [`Setup::of`].
    pub fn retaining(spec: &BenchSpec, retention: &Retention) -> Result<Setup, BenchError> {
        let mut setup = Setup::of(spec)?;
        let template = &mut setup.template;
        (template.application, template.journal.kind) = (ApplicationKind::KEY_VALUE, JournalKind::File);
        let consensus = &mut template.consensus;
        (consensus.window, consensus.checkpoint_interval) = (retention.window, retention.checkpoint_interval);
        (consensus.retained_blocks, consensus.retained_bytes) = (retention.retained_blocks, retention.retained_bytes);
        Ok(setup)
    }

    pub fn replicas(&self) -> usize {
        self.own.len()
    }

    /// Adds a replica's own settings.
    pub fn vary(&self, config: &mut NodeConfig) {
        let own = &self.own[config.replica.index()];
        (config.laboratory, config.recording) = (own.laboratory.clone(), own.recording.clone());
    }
}

/// Returns a replica's misbehaviour. Its clock starts slightly before the load does, so faults come slightly early.
fn laboratory(spec: &BenchSpec, replica: ReplicaId) -> Option<Laboratory> {
    spec.fault.iter().find_map(|fault| match *fault {
        Fault::Misbehave(who, fault, When { at, lasts, every }) if who.contains(replica) => {
            let start_ms = at.map_or(0, |at| spec.warmup.as_millis() + at.as_millis());
            let [for_ms, every_ms] = [lasts, every].map(|time| time.map(Interval::as_millis));
            Some(Laboratory { fault, start_ms, for_ms, every_ms })
        }
        _ => None,
    })
}

/// Creates a directory for this run.
pub(super) fn directory() -> Result<Directory, BenchError> {
    Directory::new().map_err(|(path, source)| BenchError::Write { path, source })
}
