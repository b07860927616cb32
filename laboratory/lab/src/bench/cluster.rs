//! Cluster to measure: threads of this process, processes on this machine or others, or a cluster that runs elsewhere.

use super::deployed::Deployed;
use super::emulated::Emulated;
use super::error::BenchError;
use super::processes::Processes;
use super::scratch::Directory;
use super::setup::{self, Setup};
use crate::result::EmulationResult;
use crate::spec::{Host, JournalKind};
use quorate_client::ClientConfig;
use quorate_node::{EmbeddedCluster, NoObserver, NodeConfig};
use quorate_types::{Committee, ReplicaId};
use std::fs;

/// Replicas of one benchmark.
pub enum Cluster {
    /// Threads of this process, and the directory of their journals if these are files.
    Threads(EmbeddedCluster, Option<Directory>),
    Processes(Processes),
    /// Processes on other machines.
    Deployed(Box<Deployed>),
    /// A running cluster, which this process neither starts nor stops.
    Foreign(Committee),
}

impl Cluster {
    /// Starts the replicas, in an emulated network if one is given.
    pub fn start(setup: &Setup, network: Option<Emulated>) -> Result<Cluster, BenchError> {
        if setup.host != Host::Threads {
            return Ok(Cluster::Processes(Processes::start(setup, network)?));
        }
        let directory = match setup.template.journal.kind {
            JournalKind::File => Some(setup::directory()?),
            JournalKind::Memory => None,
        };
        let vary = |config: &mut NodeConfig| {
            if let Some(directory) = &directory {
                config.journal.directory = directory.path().join(format!("journal-{}", config.replica.0));
            }
            setup.vary(config);
        };
        let cluster = EmbeddedCluster::start(&setup.template, &setup.addresses, vary, || Box::new(NoObserver))?;
        Ok(Cluster::Threads(cluster, directory))
    }

    /// Wraps a cluster that runs elsewhere.
    pub fn foreign(config: &ClientConfig) -> Cluster {
        Cluster::Foreign(config.committee().expect("a configuration is validated when it is read"))
    }

    /// Returns the replicas with their addresses for clients.
    pub fn committee(&self) -> &Committee {
        match self {
            Cluster::Threads(cluster, _) => cluster.committee(),
            Cluster::Processes(processes) => processes.committee(),
            Cluster::Deployed(deployed) => deployed.committee(),
            Cluster::Foreign(committee) => committee,
        }
    }

    /// Returns the emulated network of the replicas.
    pub fn network(&mut self) -> Option<&mut Emulated> {
        match self {
            Cluster::Processes(processes) => processes.network(),
            _ => None,
        }
    }

    /// Ends the emulated network, if there is one, and returns its report.
    pub fn finish_network(&mut self) -> Result<Option<EmulationResult>, BenchError> {
        self.network().map(Emulated::finish).transpose()
    }

    /// Kills a replica with SIGKILL.
    pub fn kill(&mut self, replica: ReplicaId) -> Result<(), BenchError> {
        match self {
            Cluster::Threads(cluster, _) => cluster.stop(replica).map(|_| ()).map_err(BenchError::from),
            Cluster::Processes(processes) => processes.kill(replica),
            Cluster::Deployed(deployed) => {
                deployed.kill(replica);
                Ok(())
            }
            Cluster::Foreign(_) => unreachable!("only bench has faults, and it starts its own replicas"),
        }
    }

    pub fn restart(&mut self, replica: ReplicaId) -> Result<(), BenchError> {
        match self {
            Cluster::Processes(processes) => processes.restart(replica),
            Cluster::Deployed(deployed) => {
                deployed.restart(replica);
                Ok(())
            }
            _ => unreachable!("the spec was checked: only a process comes back"),
        }
    }

    /// Fails if a replica ended that was not killed. Other machines may fail, as long as some measurement remains: each
    /// is reported once, by a sentence.
    pub fn check(&mut self) -> Result<Vec<String>, BenchError> {
        match self {
            Cluster::Threads(cluster, _) if !cluster.ended().is_empty() => cluster.report_ended()?,
            Cluster::Processes(processes) => processes.check()?,
            Cluster::Deployed(deployed) => return deployed.check(),
            _ => {}
        }
        Ok(Vec::new())
    }

    /// Returns the peak memory of all processes in kilobytes; 0 for a cluster that runs elsewhere.
    pub fn peak_rss_kb(&self) -> u64 {
        match self {
            Cluster::Threads(..) => peak_rss_kb("self"),
            Cluster::Processes(processes) => {
                peak_rss_kb("self") + processes.ids().map(|id| peak_rss_kb(&id)).sum::<u64>()
            }
            Cluster::Deployed(..) | Cluster::Foreign(_) => 0,
        }
    }

    /// Stops the replicas. Reports an error of any replica that was not killed.
    pub fn stop(self) -> Result<(), BenchError> {
        if let Cluster::Threads(cluster, _directory) = self {
            for (_, status) in cluster.shut_down() {
                status?;
            }
        }
        Ok(())
    }
}

/// Returns `VmHWM` of a process; 0 if the process is gone or the system does not report it.
fn peak_rss_kb(process: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
