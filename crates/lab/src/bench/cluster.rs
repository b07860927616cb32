//! A cluster to measure: threads of this process, processes of this machine, or one that somebody else runs.

use super::error::BenchError;
use crate::spec::{BenchSpec, Dissemination, Fault, Host, Reply, Scheme};
use quorate_applications::ApplicationKind;
use quorate_client::{ClientConfig, session};
use quorate_crypto::SchemeKind;
use quorate_node::config::CONFIG_FILE;
use quorate_node::{EmbeddedCluster, Laboratory, NoObserver, NodeConfig, ReplyMode, testnet};
use quorate_types::{Committee, ReplicaId};
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Lines of a dead replica's output that are shown.
const LOG_LINES_SHOWN: usize = 20;
/// Where free ports are looked for.
const PORTS: std::ops::Range<u16> = 20_000..60_000;

/// The replicas of one benchmark.
pub enum Cluster {
    /// Threads of this process.
    Threads(EmbeddedCluster),
    /// A process each.
    Processes(Processes),
    /// Not ours to start or to stop.
    Foreign(Committee),
}

/// A replica's process.
struct Process {
    child: Child,
    log: PathBuf,
    killed: bool,
}

/// Replicas as processes, and the directory in which they live; both end with this.
pub struct Processes {
    directory: PathBuf,
    processes: Vec<Process>,
    committee: Committee,
}

/// The settings of every replica that a spec describes.
pub fn node_template(spec: &BenchSpec) -> NodeConfig {
    let mut config = NodeConfig::template("quorate");
    config.faults = spec.faults.map(|faults| faults as usize);
    config.scheme = scheme(spec.scheme);
    config.application =
        if spec.workload_kind().is_key_value() { ApplicationKind::KeyValue } else { ApplicationKind::Log };
    config.reply = match spec.reply {
        Reply::Each => ReplyMode::Each,
        Reply::None => ReplyMode::None,
    };
    config.consensus = spec.consensus();
    config
}

fn scheme(scheme: Scheme) -> SchemeKind {
    match scheme {
        Scheme::Ed25519 => SchemeKind::Ed25519,
        Scheme::None => SchemeKind::None,
    }
}

/// What a client of such a cluster has to know.
pub fn client_config(
    spec: &BenchSpec,
    committee: &Committee,
    cluster: &str,
    application: ApplicationKind,
) -> ClientConfig {
    let mut config = ClientConfig::new(cluster, scheme(spec.scheme), committee.quorum.faults(), &committee.members);
    config.application = application.name().to_owned();
    config.dissemination = match spec.dissemination {
        Dissemination::Client => session::Dissemination::Client,
        Dissemination::Leader => session::Dissemination::Leader,
    };
    config
}

impl Cluster {
    /// Starts the replicas of a spec.
    pub fn start(spec: &BenchSpec) -> Result<Cluster, BenchError> {
        let template = node_template(spec);
        match spec.host {
            Host::Threads => {
                let vary = |config: &mut NodeConfig| config.laboratory = laboratory(spec, config.replica);
                let addresses = addresses(spec.base_port, spec.replicas);
                let cluster = EmbeddedCluster::start(&template, &addresses, vary, || Box::new(NoObserver))?;
                Ok(Cluster::Threads(cluster))
            }
            Host::Processes => Ok(Cluster::Processes(Processes::start(spec, &template)?)),
        }
    }

    /// A cluster that runs elsewhere.
    pub fn foreign(config: &ClientConfig) -> Cluster {
        Cluster::Foreign(config.committee().expect("a configuration is validated when it is read"))
    }

    /// What clients have to know.
    pub fn client_config(&self, spec: &BenchSpec) -> ClientConfig {
        let template = node_template(spec);
        let committee = match self {
            Cluster::Threads(cluster) => cluster.committee(),
            Cluster::Processes(processes) => &processes.committee,
            Cluster::Foreign(committee) => committee,
        };
        client_config(spec, committee, &template.cluster, template.application)
    }

    /// Kills a replica as by `kill -9`.
    pub fn kill(&mut self, replica: ReplicaId) -> Result<(), BenchError> {
        match self {
            Cluster::Threads(cluster) => cluster.stop(replica).map(|_| ()).map_err(BenchError::Node),
            Cluster::Processes(processes) => processes.kill(replica),
            Cluster::Foreign(_) => unreachable!("only bench has faults, and it starts its own replicas"),
        }
    }

    /// Fails if a replica ended although nobody killed it.
    pub fn check(&mut self) -> Result<(), BenchError> {
        match self {
            Cluster::Threads(cluster) if !cluster.ended().is_empty() => {
                cluster.report_ended().map_err(BenchError::Node)
            }
            Cluster::Processes(processes) => processes.check(),
            _ => Ok(()),
        }
    }

    /// The memory of all processes together at its highest, in kilobytes; 0 where others run them.
    pub fn peak_rss_kb(&self) -> u64 {
        match self {
            Cluster::Threads(_) => peak_rss_kb("self"),
            Cluster::Processes(processes) => {
                let of = |process: &Process| peak_rss_kb(&process.child.id().to_string());
                peak_rss_kb("self") + processes.processes.iter().map(of).sum::<u64>()
            }
            Cluster::Foreign(_) => 0,
        }
    }

    /// Stops the replicas; an error of one that was not killed is reported.
    pub fn stop(self) -> Result<(), BenchError> {
        if let Cluster::Threads(cluster) = self {
            for (_, status) in cluster.shut_down() {
                status?;
            }
        }
        Ok(())
    }
}

fn laboratory(spec: &BenchSpec, replica: ReplicaId) -> Option<Laboratory> {
    let fault = spec.fault.iter().find(|fault| fault.replica() == replica)?;
    match fault {
        Fault::Silent(_) => Some(Laboratory::of(quorate_node::Fault::Silent)),
        Fault::Slow(_) => Some(Laboratory::of(quorate_node::Fault::Slow)),
        Fault::Crash(..) => None,
    }
}

/// Addresses of this host; with port 0 the system chooses each.
fn addresses(base_port: u16, replicas: u32) -> Vec<SocketAddr> {
    let port = |replica: u32| if base_port == 0 { 0 } else { base_port + replica as u16 };
    (0..replicas).map(|replica| SocketAddr::from((Ipv4Addr::LOCALHOST, port(replica)))).collect()
}

impl Processes {
    fn start(spec: &BenchSpec, template: &NodeConfig) -> Result<Processes, BenchError> {
        let directory = std::env::temp_dir().join(format!("quorate-bench-{}", std::process::id()));
        let base_port = if spec.base_port == 0 { free_ports(spec.replicas)? } else { spec.base_port };
        let net = testnet::write(template, spec.replicas as usize, base_port, &directory)?;
        let committee = net.configs[0].committee().map_err(|fault| BenchError::Node(fault.into()))?;
        let mut cluster = Processes { directory, processes: Vec::new(), committee };
        for (mut config, home) in net.configs.into_iter().zip(&net.directories) {
            config.laboratory = laboratory(spec, config.replica);
            if config.laboratory.is_some() {
                write(&home.join(CONFIG_FILE), &config.to_toml())?;
            }
            cluster.spawn(config.replica, home)?;
        }
        Ok(cluster)
    }

    fn spawn(&mut self, replica: ReplicaId, home: &Path) -> Result<(), BenchError> {
        let fail = |source| BenchError::Spawn { replica, source };
        let log = home.join("log.txt");
        let output = File::create(&log).map_err(fail)?;
        let mut command = Command::new(std::env::current_exe().map_err(fail)?);
        command.args(["node", "--dir"]).arg(home).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let child = command.spawn().map_err(fail)?;
        self.processes.push(Process { child, log, killed: false });
        Ok(())
    }

    fn kill(&mut self, replica: ReplicaId) -> Result<(), BenchError> {
        let process = &mut self.processes[replica.index()];
        process.killed = true;
        let ended = process.child.kill().and_then(|()| process.child.wait());
        ended.map(|_| ()).map_err(|source| BenchError::Spawn { replica, source })
    }

    fn check(&mut self) -> Result<(), BenchError> {
        for (replica, process) in self.processes.iter_mut().enumerate().filter(|(_, process)| !process.killed) {
            if let Ok(Some(status)) = process.child.try_wait() {
                process.killed = true;
                let text = fs::read_to_string(&process.log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let log = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n");
                return Err(BenchError::Ended { replica: ReplicaId(replica as u16), status: status.to_string(), log });
            }
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Errors here mean that the process is gone already, or that the directory stays for the system to clean.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    fs::write(path, text).map_err(|source| BenchError::Write { path: path.to_owned(), source })
}

/// The first of so many consecutive ports that nobody uses now.
fn free_ports(count: u32) -> Result<u16, BenchError> {
    let count = count as u16;
    let start = PORTS.start + (std::process::id() % 997) as u16 * 32;
    let candidates = (0..PORTS.len() as u32 / u32::from(count.max(1))).map(|step| {
        let offset =
            (u32::from(start - PORTS.start) + step * u32::from(count)) % (PORTS.len() as u32 - u32::from(count));
        PORTS.start + offset as u16
    });
    let free = |port: u16| -> io::Result<()> { TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(|_| ()) };
    candidates
        .into_iter()
        .find(|base| (*base..*base + count).all(|port| free(port).is_ok()))
        .ok_or(BenchError::NoPorts(u32::from(count)))
}

/// `VmHWM` of a process; 0 where it is gone or the system does not tell.
fn peak_rss_kb(process: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
