//! A cluster on other machines, reached with the client's own OpenSSH: replicas, and clients on machines of their own.

mod agent;
mod check;
mod copy;
mod fleet;
mod hosts;
mod link;
mod load;
mod options;
mod prepare;
mod protocol;
mod ssh;
mod workers;

pub use agent::serve as serve_deployed_agent;
pub use check::{Facts, Needs, SCRIPT as HOST_CHECK};
pub use hosts::{Host as DeployedHost, parse as parse_hosts, read as read_hosts};
pub use link::AGENT as DEPLOYED_AGENT;
pub use load::{FleetLoad, FleetProbe};
pub use options::DeploymentOptions;
pub use prepare::place as place_on_hosts;
pub use protocol::{CellOutput, RemoteFile};
pub use ssh::Ssh;
pub use workers::{CellEnd, Workers};

use super::error::BenchError;
use super::progress::Watcher;
use super::setup::Setup;
use crate::result::{DeploymentResult, Event, HostResult};
use crate::settings::load_options;
use crate::spec::{BenchSpec, WorkloadKind};
use agent::{RECORDING, REPLICA_HOME};
use check::{PERF, SYSTEM_PATH};
use fleet::Fleet;
use prepare::{Prepared, check};
use protocol::LoadPart;
use quorate_client::load::LoadReport;
use quorate_node::config::CONFIG_FILE;
use quorate_node::testnet::{self, Testnet};
use quorate_node::{NodeConfig, NodeError};
use quorate_operator::testnet::client_config;
use quorate_types::digest::encode_hex;
use quorate_types::{Committee, ReplicaId, ReplicaThreads};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Ending of the names of files with call stacks.
pub const STACKS: &str = ".stacks";
/// File of the commands in a client machine's directory.
const COMMANDS_FILE: &str = "commands";
/// Time for connections besides the clients' own timeouts.
const LOAD_MARGIN: Duration = Duration::from_secs(10);

/// A cluster on hosts, whose clients are ready.
pub struct Deployed {
    fleet: Rc<Fleet>,
    spec: BenchSpec,
    logs: Option<PathBuf>,
    perf: Option<PathBuf>,
    /// Number of hosts to which the program was copied.
    copied: usize,
    committee: Committee,
    warnings: Vec<String>,
}

/// Checks the hosts and returns the placement as text. Copies and starts nothing.
///
/// # Errors
/// As [`Deployed::start`].
pub fn dry_run(spec: &BenchSpec, options: &DeploymentOptions) -> Result<String, BenchError> {
    Ok(check(spec, options)?.describe())
}

impl Deployed {
    /// Checks the hosts, copies the program to those that lack it, starts the replicas, and connects the clients.
    ///
    /// # Errors
    /// The file's fault, or every obstacle on the hosts. Nothing is left there then.
    pub fn start(
        spec: &BenchSpec,
        options: &DeploymentOptions,
        watcher: &mut dyn Watcher,
    ) -> Result<Deployed, BenchError> {
        let prepared = check(spec, options)?;
        let copied = prepared.copy(watcher)?;
        let setup = Setup::of(spec)?;
        let net = testnet::write_at(&setup.template, prepared.places.clone(), &prepared.directory.path().join("net"))?;
        let files = files_of_hosts(spec, &setup, &net, &prepared)?;
        let committee = net.client_committee().map_err(NodeError::from)?;
        let config = client_config(&setup.template, &committee);
        let warnings = prepared.warnings.clone();
        let mut fleet = Fleet::open(prepared, setup.replicas(), options.keep)?;
        fleet.prepare(files)?;
        let text = |what: &str| Event { time_s: 0.0 - spec.warmup.as_secs_f64(), text: what.to_owned() };
        watcher.event(&text(&format!("starts {} replicas", fleet.replicas)));
        fleet.start_replicas()?;
        let limit = Duration::from_millis(config.connect_timeout_ms) + load_options(spec).preload_timeout + LOAD_MARGIN;
        watcher.event(&text(&format!("connects clients on {} machines", fleet.of_clients().len())));
        fleet.load(parts(spec, fleet.of_clients().len(), &config.to_toml()), limit)?;
        let [logs, perf] = [&options.logs, &options.perf].map(|path| path.as_ref().map(PathBuf::from));
        Ok(Deployed { fleet: Rc::new(fleet), spec: spec.clone(), logs, perf, copied, committee, warnings })
    }

    /// Returns the replicas with their addresses for clients.
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// Starts the load on all client hosts at once, and the probe of their progress.
    pub fn begin(&self) -> (FleetLoad, FleetProbe) {
        let load = FleetLoad::begin(&self.fleet, load_options(&self.spec), self.perf.is_some());
        (load, FleetProbe::new(&self.fleet))
    }

    /// Kills a replica with SIGKILL.
    pub fn kill(&self, replica: ReplicaId) {
        self.fleet.kill(replica);
    }

    pub fn restart(&self, replica: ReplicaId) {
        self.fleet.restart(replica);
    }

    /// Returns a sentence for each host that has failed since the last call.
    ///
    /// # Errors
    /// If nothing is left to measure.
    pub fn check(&self) -> Result<Vec<String>, BenchError> {
        self.fleet.check()
    }

    /// Stops the replicas, collects logs and recordings, cleans up, and returns the result's part and its warnings.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(self, load: &FleetLoad) -> Result<(DeploymentResult, Vec<String>), BenchError> {
        let fleet = &self.fleet;
        // Failures count up to this point. The stop itself may end connections.
        let _ = fleet.check();
        let failures: Vec<Option<String>> = (0..fleet.links.len()).map(|number| fleet.failure(number)).collect();
        if self.perf.is_some() {
            fleet.await_profiles();
        }
        fleet.stop();
        let mut warnings = self.warnings.clone();
        warnings.extend(self.collect()?);
        let kept = fleet.end();
        let missing = load.report().map_or(fleet.of_clients().len(), |(_, missing)| missing);
        for (link, failure) in fleet.links.iter().zip(&failures) {
            let name = &link.host.name;
            warnings.extend(failure.as_ref().map(|why| format!("host {name} failed; the rest was measured: {why}")));
        }
        if missing > 0 {
            let machines = fleet.of_clients().len();
            warnings
                .push(format!("{missing} of {machines} client machines have no report: their commands are missing"));
        }
        let errors_ns = fleet.of_clients().iter().map(|link| fleet.offsets[link.number].error_ns);
        let host = |number: usize| self.host(number, failures[number].clone(), kept[number].clone());
        let hosts = (0..fleet.links.len()).map(host).collect();
        let window_error_ms = errors_ns.max().unwrap_or(0) as f64 / 1e6;
        Ok((DeploymentResult { copied: self.copied, window_error_ms, hosts }, warnings))
    }

    fn host(&self, number: usize, failure: Option<String>, kept: Option<String>) -> HostResult {
        let (link, facts) = (&self.fleet.links[number], &self.fleet.prepared.facts[number]);
        let (offset, heard) = (self.fleet.offsets[number], link.heard());
        let machine = heard.machine.clone().expect("an agent describes its machine before it starts anything");
        let completed = heard.report.as_ref().map(LoadReport::throughput);
        HostResult {
            name: link.host.name.clone(),
            role: link.host.role,
            region: link.host.region.clone(),
            address: link.host.address.clone(),
            machine,
            governor: Some(facts.governor.clone()).filter(|governor| !governor.is_empty()),
            clock_offset_ms: offset.ns as f64 / 1e6,
            clock_error_ms: offset.error_ns as f64 / 1e6,
            throughput_ops: completed,
            sent_bytes: heard.traffic.map(|traffic| traffic.sent_bytes),
            received_bytes: heard.traffic.map(|traffic| traffic.received_bytes),
            failure,
            kept,
        }
    }

    /// Writes logs, and fetches recordings and call stacks. Returns warnings about missing ones.
    fn collect(&self) -> Result<Vec<String>, BenchError> {
        let mut files = Vec::new();
        for (number, link) in self.fleet.of_replicas().iter().enumerate() {
            let Some((log, recordings)) = link.heard().stopped.clone() else { continue };
            if let Some(logs) = &self.logs {
                let path = logs.join(format!("{}.log", link.host.name));
                let written = fs::create_dir_all(logs).and_then(|()| fs::write(&path, log));
                written.map_err(|source| BenchError::Write { path, source })?;
            }
            let Some(to) = self.spec.recording(ReplicaId(number as u16)) else { continue };
            for name in recordings {
                // A restart's recording has a number after the name.
                let suffix = name.strip_prefix(RECORDING).unwrap_or_default();
                let mut path = to.clone().into_os_string();
                path.push(suffix);
                files.push((number, format!("cat {name}"), PathBuf::from(path)));
            }
        }
        let mut warnings = self.profiles(&mut files)?;
        warnings.extend(self.fleet.fetch(&files)?);
        Ok(warnings)
    }

    /// Adds the call stacks to the outputs to fetch. Returns warnings about missing ones.
    fn profiles(&self, files: &mut Vec<(usize, String, PathBuf)>) -> Result<Vec<String>, BenchError> {
        let Some(to) = &self.perf else { return Ok(Vec::new()) };
        fs::create_dir_all(to).map_err(|source| BenchError::Write { path: to.clone(), source })?;
        let mut warnings = Vec::new();
        for link in &self.fleet.links {
            let name = &link.host.name;
            match link.heard().profile.clone() {
                Some(Ok(samples)) => {
                    // Finding inlined functions takes a process per address, and minutes in total.
                    let command = format!("PATH=$PATH:{SYSTEM_PATH} {PERF} script --no-inline --input {samples}");
                    files.push((link.number, command, to.join(format!("{name}{STACKS}"))));
                }
                Some(Err(why)) => warnings.push(format!("host {name}: there is no profile of it: {why}")),
                None => warnings.push(format!("host {name}: there is no profile of it: its perf did not end")),
            }
        }
        Ok(warnings)
    }
}

/// Returns the parts of the load for this many machines. The first ones have one client more if it does not divide.
fn parts(spec: &BenchSpec, machines: usize, config: &str) -> Vec<LoadPart> {
    let (whole, more) = (spec.clients as usize / machines, spec.clients as usize % machines);
    let clients: Vec<usize> = (0..machines).map(|machine| whole + usize::from(machine < more)).collect();
    let mut own = BenchSpec { json: None, report: None, record: None, ..spec.clone() };
    if matches!(own.workload, WorkloadKind::File(_)) {
        own.workload = WorkloadKind::File(COMMANDS_FILE.into());
    }
    let part = |machine| LoadPart { spec: own.clone(), config: config.to_owned(), clients: clients.clone(), machine };
    (0..machines).map(part).collect()
}

/// Returns the files of each host's directory: a replica's own, or the commands of the clients.
fn files_of_hosts(
    spec: &BenchSpec,
    setup: &Setup,
    net: &Testnet,
    prepared: &Prepared,
) -> Result<Vec<Vec<RemoteFile>>, BenchError> {
    let mut all = Vec::new();
    for (config, home) in net.configs.iter().zip(&net.directories) {
        let mut files = Vec::new();
        add_files(home, Path::new(REPLICA_HOME), &mut files)?;
        let (host, facts) = (&prepared.hosts[all.len()], &prepared.facts[all.len()]);
        let config = config_of(spec, setup, config.clone(), host.cores.unwrap_or(facts.cores));
        let path = format!("{REPLICA_HOME}/{CONFIG_FILE}");
        files.retain(|file: &RemoteFile| file.path != path);
        files.push(RemoteFile { path, hex: encode_hex(config.to_toml().as_bytes()) });
        all.push(files);
    }
    let mut of_clients = Vec::new();
    if let WorkloadKind::File(path) = &spec.workload {
        let bytes = fs::read(path).map_err(|source| BenchError::Read { path: path.clone(), source })?;
        of_clients.push(RemoteFile { path: COMMANDS_FILE.to_owned(), hex: encode_hex(&bytes) });
    }
    all.resize(prepared.hosts.len(), of_clients);
    Ok(all)
}

/// Returns a replica's configuration on a host with this many cores.
fn config_of(spec: &BenchSpec, setup: &Setup, mut config: NodeConfig, cores: usize) -> NodeConfig {
    setup.vary(&mut config);
    let threads = spec.node.replica_threads.of(cores, setup.replicas(), spec.replica_work());
    config.replica_threads = ReplicaThreads::Count(threads);
    if let Some(recording) = &mut config.recording {
        recording.file = RECORDING.into();
    }
    config
}

/// Adds the files of a directory, whose path on the host is `at`.
fn add_files(directory: &Path, at: &Path, files: &mut Vec<RemoteFile>) -> Result<(), BenchError> {
    let cannot = |source| BenchError::Read { path: directory.to_owned(), source };
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let (path, to) = (entry.path(), at.join(entry.file_name()));
        if path.is_dir() {
            add_files(&path, &to, files)?;
        } else {
            let bytes = fs::read(&path).map_err(|source| BenchError::Read { path, source })?;
            files.push(RemoteFile { path: to.display().to_string(), hex: encode_hex(&bytes) });
        }
    }
    Ok(())
}
