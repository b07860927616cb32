//! Cluster to measure: threads of this process, processes on this machine, or a cluster that runs elsewhere.

use super::emulated::{Emulated, EmulationOptions, Resolved};
use super::error::{BenchError, PORTS};
use super::last_words::Words;
use super::scratch::{Directory, Offspring};
use crate::affinity;
use crate::recording;
use crate::result::EmulationResult;
use crate::spec::{BenchSpec, Fault, Host, Interval, JournalKind, Retention, When};
use quorate_applications::ApplicationKind;
use quorate_client::ClientConfig;
use quorate_network::transports::Wire;
use quorate_node::config::CONFIG_FILE;
use quorate_node::testnet::PORTS_PER_REPLICA;
use quorate_node::{EmbeddedCluster, Laboratory, NoObserver, NodeConfig, NodeError, testnet};
use quorate_operator::testnet::client_config;
use quorate_types::{Committee, ReplicaId, ReplicaThreads};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Replicas of one benchmark.
pub enum Cluster {
    /// Threads of this process, and the directory of their journals if these are files.
    Threads(EmbeddedCluster, Option<Directory>),
    Processes(Processes),
    /// A running cluster, which this process neither starts nor stops.
    Foreign(Committee),
}

struct Process {
    child: Offspring,
    config: NodeConfig,
    /// Start of its first process.
    born: Instant,
    home: PathBuf,
    said: Words,
    killed: bool,
}

/// Replicas as processes, and their directory. Both are removed on drop.
pub struct Processes {
    processes: Vec<Process>,
    /// Includes the replicas' addresses for clients.
    committee: Committee,
    network: Option<Box<Emulated>>,
    /// Last field, so that it is dropped after the processes.
    _directory: Directory,
}

impl Cluster {
    /// Starts the replicas, in an emulated network if one is given.
    pub fn start(spec: &BenchSpec, network: Option<(&EmulationOptions, Resolved)>) -> Result<Cluster, BenchError> {
        let template = spec.template();
        match spec.host {
            Host::Threads => {
                recording::make_room(spec).map_err(|(path, source)| BenchError::Write { path, source })?;
                let directory = match spec.journal() {
                    JournalKind::File => Some(directory()?),
                    JournalKind::Memory => None,
                };
                let vary = |config: &mut NodeConfig| {
                    if let Some(directory) = &directory {
                        config.journal.directory = directory.path().join(format!("journal-{}", config.replica.0));
                    }
                    experiment(spec, config);
                };
                let addresses = addresses(spec.base_port, spec.replicas);
                let cluster = EmbeddedCluster::start(&template, &addresses, vary, || Box::new(NoObserver))?;
                Ok(Cluster::Threads(cluster, directory))
            }
            Host::Processes | Host::Emulated => {
                let start = |(options, network)| Emulated::start(spec, options, network);
                Ok(Cluster::Processes(Processes::start(spec, &template, network.map(start).transpose()?)?))
            }
        }
    }

    /// Wraps a cluster that runs elsewhere.
    pub fn foreign(config: &ClientConfig) -> Cluster {
        Cluster::Foreign(config.committee().expect("a configuration is validated when it is read"))
    }

    pub fn client_config(&self, spec: &BenchSpec) -> ClientConfig {
        let committee = match self {
            Cluster::Threads(cluster, _) => cluster.committee(),
            Cluster::Processes(processes) => &processes.committee,
            Cluster::Foreign(committee) => committee,
        };
        client_config(&spec.template(), committee)
    }

    /// Returns the emulated network of the replicas.
    pub fn network(&mut self) -> Option<&mut Emulated> {
        match self {
            Cluster::Processes(processes) => processes.network.as_deref_mut(),
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
            Cluster::Foreign(_) => unreachable!("only bench has faults, and it starts its own replicas"),
        }
    }

    pub fn restart(&mut self, replica: ReplicaId) -> Result<(), BenchError> {
        match self {
            Cluster::Processes(processes) => processes.restart(replica),
            _ => unreachable!("the spec was checked: only a process comes back"),
        }
    }

    /// Fails if a replica ended that was not killed.
    pub fn check(&mut self) -> Result<(), BenchError> {
        match self {
            Cluster::Threads(cluster, _) if !cluster.ended().is_empty() => {
                cluster.report_ended().map_err(BenchError::from)
            }
            Cluster::Processes(processes) => processes.check(),
            _ => Ok(()),
        }
    }

    /// Returns the peak memory of all processes in kilobytes; 0 for a cluster that runs elsewhere.
    pub fn peak_rss_kb(&self) -> u64 {
        match self {
            Cluster::Threads(..) => peak_rss_kb("self"),
            Cluster::Processes(processes) => {
                let of = |process: &Process| peak_rss_kb(&process.child.id().to_string());
                peak_rss_kb("self") + processes.processes.iter().map(of).sum::<u64>()
            }
            Cluster::Foreign(_) => 0,
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

/// Returns the replicas' settings for a key-value store with journals in files.
fn retaining(spec: &BenchSpec) -> NodeConfig {
    let mut template = spec.template();
    (template.application, template.journal.kind) = (ApplicationKind::KEY_VALUE, JournalKind::File);
    template
}

/// Adds the settings that differ from one replica to the next.
fn experiment(spec: &BenchSpec, config: &mut NodeConfig) {
    config.laboratory = laboratory(spec, config.replica);
    config.recording = recording::of_replica(spec, config.replica);
    let replicas = spec.quorum().replicas();
    let cores = affinity::available();
    config.replica_threads = ReplicaThreads::Count(spec.node.replica_threads.of(cores, replicas, spec.replica_work()));
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

/// Returns the remainder of a misbehaviour, `elapsed_ms` after the replica's first start. A recurring one resumes with
/// its next start.
fn after(laboratory: Laboratory, elapsed_ms: u64) -> Option<Laboratory> {
    let since = elapsed_ms.saturating_sub(laboratory.start_ms);
    let start_ms = laboratory.start_ms.saturating_sub(elapsed_ms);
    match (laboratory.for_ms, laboratory.every_ms) {
        _ if since == 0 => Some(Laboratory { start_ms, ..laboratory }),
        (_, Some(every)) => Some(Laboratory { start_ms: every - since % every, ..laboratory }),
        (Some(lasts), None) if since >= lasts => None,
        (Some(lasts), None) => Some(Laboratory { start_ms, for_ms: Some(lasts - since), ..laboratory }),
        (None, None) => Some(Laboratory { start_ms, ..laboratory }),
    }
}

/// Returns addresses on this host; with port 0 the system chooses each port.
fn addresses(base_port: u16, replicas: u32) -> Vec<SocketAddr> {
    let port = |replica: u32| if base_port == 0 { 0 } else { base_port + replica as u16 };
    (0..replicas).map(|replica| SocketAddr::from((Ipv4Addr::LOCALHOST, port(replica)))).collect()
}

/// Creates a directory for this run.
fn directory() -> Result<Directory, BenchError> {
    Directory::new().map_err(|(path, source)| BenchError::Write { path, source })
}

impl Processes {
    fn start(spec: &BenchSpec, template: &NodeConfig, network: Option<Emulated>) -> Result<Processes, BenchError> {
        recording::make_room(spec).map_err(|(path, source)| BenchError::Write { path, source })?;
        let directory = directory()?;
        let places = match (&network, spec.base_port) {
            (Some(network), base_port) => network.places(base_port)?,
            (None, 0) => {
                let base_port = free_ports(&template.wire(), spec.replicas * PORTS_PER_REPLICA as u32)?;
                testnet::places_here(spec.replicas as usize, base_port)?
            }
            (None, given) => testnet::places_here(spec.replicas as usize, given)?,
        };
        let net = testnet::write_at(template, places, directory.path())?;
        let committee = net.client_committee().map_err(NodeError::from)?;
        let mut cluster =
            Processes { processes: Vec::new(), committee, network: network.map(Box::new), _directory: directory };
        for (mut config, home) in net.configs.into_iter().zip(&net.directories) {
            let written = config.clone();
            experiment(spec, &mut config);
            if config != written {
                write(&home.join(CONFIG_FILE), &config.to_toml())?;
            }
            let said = Words::new(home).map_err(|source| BenchError::Spawn { replica: config.replica, source })?;
            let child = spawn(config.replica, home, &said, cluster.network.as_deref())?;
            let home = home.clone();
            cluster.processes.push(Process { child, config, born: Instant::now(), home, said, killed: false });
        }
        Ok(cluster)
    }

    /// Starts replicas of a key-value store with journals in files, so that they can be killed and restarted.
    /// `retention` limits the blocks that they keep for peers that were down.
    ///
    /// # Errors
    /// If they cannot be started.
    pub fn retaining(spec: &BenchSpec, retention: &Retention) -> Result<Processes, BenchError> {
        let mut template = retaining(spec);
        let consensus = &mut template.consensus;
        (consensus.window, consensus.checkpoint_interval) = (retention.window, retention.checkpoint_interval);
        (consensus.retained_blocks, consensus.retained_bytes) = (retention.retained_blocks, retention.retained_bytes);
        Processes::start(spec, &template, None)
    }

    /// Returns how often these words occur in the replicas' output.
    pub fn said(&self, words: &str) -> usize {
        self.processes.iter().map(|process| process.said.text().matches(words).count()).sum()
    }

    pub fn client_config(&self, spec: &BenchSpec) -> ClientConfig {
        client_config(&retaining(spec), &self.committee)
    }

    /// Restarts a killed replica in its directory, with its earlier misbehaviour.
    ///
    /// # Errors
    /// If its configuration cannot be written, or the process cannot be started.
    pub fn restart(&mut self, replica: ReplicaId) -> Result<(), BenchError> {
        let process = &mut self.processes[replica.index()];
        assert!(process.killed, "only a killed replica is restarted");
        if let Some(laboratory) = process.config.laboratory.clone() {
            let mut config = process.config.clone();
            config.laboratory = after(laboratory, process.born.elapsed().as_millis() as u64);
            write(&process.home.join(CONFIG_FILE), &config.to_toml())?;
        }
        process.child = spawn(replica, &process.home, &process.said, self.network.as_deref())?;
        process.killed = false;
        Ok(())
    }

    /// Pauses a replica (SIGSTOP); its connections stay open.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn pause(&self, replica: ReplicaId) -> Result<(), BenchError> {
        self.signal(replica, libc::SIGSTOP)
    }

    /// Continues a paused replica (SIGCONT).
    ///
    /// # Errors
    /// If the process is gone.
    pub fn resume(&self, replica: ReplicaId) -> Result<(), BenchError> {
        self.signal(replica, libc::SIGCONT)
    }

    fn signal(&self, replica: ReplicaId, signal: libc::c_int) -> Result<(), BenchError> {
        let process = libc::pid_t::try_from(self.processes[replica.index()].child.id()).expect("a process id fits");
        // SAFETY: sends a signal to a child that has not been waited for, so its id is still its own.
        match unsafe { libc::kill(process, signal) } {
            0 => Ok(()),
            _ => Err(BenchError::Spawn { replica, source: io::Error::last_os_error() }),
        }
    }

    /// Kills a replica with SIGKILL.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn kill(&mut self, replica: ReplicaId) -> Result<(), BenchError> {
        let process = &mut self.processes[replica.index()];
        process.killed = true;
        let ended = process.child.kill();
        ended.map(|_| ()).map_err(|source| BenchError::Spawn { replica, source })
    }

    /// Fails if a replica ended that was not killed.
    ///
    /// # Errors
    /// The replica, and the end of its output.
    pub fn check(&mut self) -> Result<(), BenchError> {
        for (replica, process) in self.processes.iter_mut().enumerate().filter(|(_, process)| !process.killed) {
            if let Ok(Some(status)) = process.child.try_wait() {
                process.killed = true;
                let (replica, log) = (ReplicaId(replica as u16), process.said.last());
                return Err(BenchError::Ended { replica, status, log });
            }
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // An error means that the process has already ended.
            let _ = process.child.kill();
        }
    }
}

/// Starts the replica with the directory `home`, in its namespace if there is an emulated network.
fn spawn(replica: ReplicaId, home: &Path, said: &Words, network: Option<&Emulated>) -> Result<Offspring, BenchError> {
    let fail = |source| BenchError::Spawn { replica, source };
    let output = said.stdio().map_err(fail)?;
    let mut command = Command::new(std::env::current_exe().map_err(fail)?);
    command.args(["node", "--dir"]).arg(home).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    if let Some(namespace) = network.map(|network| network.namespace(replica)) {
        // SAFETY: makes one system call between fork and exec; the descriptor is open as long as the network lives.
        unsafe { command.pre_exec(move || crate::emulation::enter(namespace)) };
    }
    Offspring::spawn(&mut command).map_err(fail)
}

fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    fs::write(path, text).map_err(|source| BenchError::Write { path: path.to_owned(), source })
}

/// Returns the first of `count` consecutive free ports.
fn free_ports(wire: &Wire, count: u32) -> Result<u16, BenchError> {
    let count = count as u16;
    let start = PORTS.start + (std::process::id() % 343) as u16 * 32;
    let mut candidates = (0..PORTS.len() as u32 / u32::from(count.max(1))).map(|step| {
        let offset =
            (u32::from(start - PORTS.start) + step * u32::from(count)) % (PORTS.len() as u32 - u32::from(count));
        PORTS.start + offset as u16
    });
    let free = |port: u16| wire.listen(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into());
    if let Some(source) = free(0).err().filter(|error| error.kind() == io::ErrorKind::Unsupported) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into();
        return Err(NodeError::Listen { key: "listen", address, source }.into());
    }
    candidates
        .find(|base| (*base..*base + count).all(|port| free(port).is_ok()))
        .ok_or(BenchError::NoPorts { ports: u32::from(count) })
}

/// Returns `VmHWM` of a process; 0 if the process is gone or the system does not report it.
fn peak_rss_kb(process: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
