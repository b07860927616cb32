//! Replicas as processes on this machine.

use super::emulated::Emulated;
use super::error::{BenchError, PORTS};
use super::last_words::Words;
use super::scratch::{Directory, Offspring};
use super::setup::{self, Setup};
use quorate_network::transports::Wire;
use quorate_node::config::CONFIG_FILE;
use quorate_node::testnet::PORTS_PER_REPLICA;
use quorate_node::{Laboratory, NodeConfig, NodeError, testnet};
use quorate_types::{Committee, ReplicaId};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

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

impl Processes {
    /// Starts the replicas, in an emulated network if one is given.
    ///
    /// # Errors
    /// If files cannot be written, there are no free ports, or a process cannot be started.
    pub fn start(setup: &Setup, network: Option<Emulated>) -> Result<Processes, BenchError> {
        let (directory, template) = (setup::directory()?, &setup.template);
        let places = match (&network, setup.base_port) {
            (Some(network), base_port) => network.places(base_port)?,
            (None, 0) => {
                let ports = setup.replicas() as u32 * PORTS_PER_REPLICA as u32;
                testnet::places_here(setup.replicas(), free_ports(&template.wire(), ports)?)?
            }
            (None, given) => testnet::places_here(setup.replicas(), given)?,
        };
        let net = testnet::write_at(template, places, directory.path())?;
        let committee = net.client_committee().map_err(NodeError::from)?;
        let mut cluster =
            Processes { processes: Vec::new(), committee, network: network.map(Box::new), _directory: directory };
        for (mut config, home) in net.configs.into_iter().zip(&net.directories) {
            let written = config.clone();
            setup.vary(&mut config);
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

    /// Returns how often these words occur in the replicas' output.
    pub fn said(&self, words: &str) -> usize {
        self.processes.iter().map(|process| process.said.text().matches(words).count()).sum()
    }

    /// Returns the replicas with their addresses for clients.
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// Returns the emulated network of the replicas.
    pub(super) fn network(&mut self) -> Option<&mut Emulated> {
        self.network.as_deref_mut()
    }

    /// Returns the process ids.
    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        self.processes.iter().map(|process| process.child.id().to_string())
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
