//! Preparation of the hosts: connections, checks, and the copy of the program.

use super::check::{Facts, Needs, SCRIPT, fault};
use super::copy;
use super::hosts::Host;
use super::options::DeploymentOptions;
use super::ssh::{CONNECT_TIMEOUT, Done, Job, LOOK_INTERVAL, Ssh, last_lines, run_all, start};
use crate::bench::error::BenchError;
use crate::bench::progress::Watcher;
use crate::bench::scratch::{Directory, Offspring};
use crate::bench::setup;
use crate::partial;
use crate::result::{Event, HostRole as Role};
use crate::spec::BenchSpec;
use quorate_node::testnet::{self, Place};
use quorate_types::{Address, Fault};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// First port of each replica if the spec leaves it open: each has a host of its own.
const PORT: u16 = 7000;
/// Time for the checks of a host.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for a copy of the program.
const COPY_TIMEOUT: Duration = Duration::from_secs(900);

/// Hosts of a run: the replicas in their order, then the client machines. All are connected and checked.
pub struct Prepared {
    pub hosts: Vec<Host>,
    pub facts: Vec<Facts>,
    pub places: Vec<Place>,
    /// Digest of the program.
    pub digest: String,
    pub warnings: Vec<String>,
    pub ssh: Ssh,
    program: PathBuf,
    /// Master connections; they end with this value, before the directory of their sockets.
    _masters: Vec<Offspring>,
    pub directory: Directory,
}

/// Returns the hosts that a spec needs: the first `replicas` with that role, then all client machines.
///
/// # Errors
/// If there are too few hosts, no client machine, or more client machines than clients.
pub fn place(hosts: &[Host], spec: &BenchSpec, file: &str) -> Result<Vec<Host>, Fault> {
    let of = |role| hosts.iter().filter(move |host| host.role == role).cloned();
    let (replicas, named) = (spec.replicas as usize, of(Role::Replica).count());
    if named < replicas {
        let help = format!("set --replicas to at most {named}, or add hosts");
        return Err(Fault::new(file, format!("names {named} hosts for {replicas} replicas"), help));
    }
    let (clients, machines) = (spec.clients as usize, of(Role::Client).count());
    if machines == 0 {
        return Err(Fault::new(file, "names no client machine", "add [[host]] with role = \"client\" and an address"));
    }
    if clients < machines {
        let help = format!("set --clients to at least {machines}, or remove hosts");
        return Err(Fault::new(file, format!("names {machines} client machines for {clients} clients"), help));
    }
    Ok(of(Role::Replica).take(replicas).chain(of(Role::Client)).collect())
}

/// Connects to the hosts and checks them.
///
/// # Errors
/// Every obstacle found, each with its host and a remedy.
pub fn check(spec: &BenchSpec, options: &DeploymentOptions) -> Result<Prepared, BenchError> {
    let file = options.hosts.as_deref().unwrap_or_default();
    let hosts = place(&super::hosts::read(Path::new(file))?, spec, file)?;
    let addresses: Vec<String> =
        hosts.iter().filter(|host| host.role == Role::Replica).map(|host| host.address.clone()).collect();
    let places = testnet::places_on(&addresses, if spec.base_port == 0 { PORT } else { spec.base_port })?;
    open(hosts, places, options.perf.is_some())
}

/// Connects to hosts and checks them, also for the ports of the replicas in `places`, and for `perf`.
///
/// # Errors
/// As [`check`].
pub fn open(hosts: Vec<Host>, places: Vec<Place>, profile: bool) -> Result<Prepared, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::Ssh)?;
    let digest = copy::digest(&program).map_err(BenchError::Ssh)?;
    let directory = setup::directory()?;
    let ssh =
        Ssh::new(directory.path()).map_err(|source| BenchError::Write { path: directory.path().to_owned(), source })?;
    let masters = connect(&ssh, &hosts)?;
    let mut prepared = Prepared {
        hosts,
        facts: Vec::new(),
        places,
        digest,
        warnings: Vec::new(),
        ssh,
        program,
        _masters: masters,
        directory,
    };
    prepared.examine(profile)?;
    Ok(prepared)
}

/// Opens the master connection of each host.
fn connect(ssh: &Ssh, hosts: &[Host]) -> Result<Vec<Offspring>, BenchError> {
    let mut masters = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let errors = File::create(ssh.file(number, "master")).map_err(BenchError::Ssh)?;
        masters.push(start(ssh.master(number, host).stderr(errors)).map_err(BenchError::Ssh)?);
    }
    let begun = Instant::now();
    loop {
        if !partial::goes_on() {
            return Err(BenchError::Interrupted);
        }
        let is_late = begun.elapsed() > CONNECT_TIMEOUT;
        let (mut faults, mut waits) = (Vec::new(), false);
        for (number, (host, master)) in hosts.iter().zip(&mut masters).enumerate() {
            if ssh.socket(number).exists() {
                continue;
            }
            let ended = master.try_wait().map_err(BenchError::Ssh)?.is_some();
            waits |= !ended;
            if ended || is_late {
                let said = last_lines(&ssh.file(number, "master"));
                let why = if said.is_empty() { "no answer".to_owned() } else { said };
                let help = format!("try `ssh {}`; it must connect without a password", shown(host));
                faults.push(fault(host, format!("cannot be reached: {why}"), help));
            }
        }
        match (faults.is_empty(), waits && !is_late) {
            (true, false) => return Ok(masters),
            (false, false) => return Err(BenchError::Hosts(faults)),
            (_, true) => std::thread::sleep(LOOK_INTERVAL),
        }
    }
}

/// Returns the destination of a host with its own user and port.
fn shown(host: &Host) -> String {
    let port = host.port.map(|port| format!("-p {port} ")).unwrap_or_default();
    let user = host.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    format!("{port}{user}{}", host.ssh)
}

impl Prepared {
    /// Runs the checks on all hosts.
    fn examine(&mut self, profile: bool) -> Result<(), BenchError> {
        let script = self.directory.path().join("check.sh");
        fs::write(&script, SCRIPT).map_err(BenchError::Ssh)?;
        let mut jobs = Vec::new();
        for (number, host) in self.hosts.iter().enumerate() {
            let (interface, digest) = (host.interface.as_deref().unwrap_or("-"), &self.digest);
            let remote = format!("sh -s {} {interface} {digest}", host.directory);
            let mut command = self.ssh.run(number, host, &remote);
            command.stdin(File::open(&script).map_err(BenchError::Ssh)?);
            jobs.push(Job { host: number, command, out: self.ssh.file(number, "check") });
        }
        let begun = SystemTime::now();
        let done = finished(run_all(jobs, CHECK_TIMEOUT))?;
        let bytes = fs::metadata(&self.program).map_err(BenchError::Ssh)?.len();
        let system = system().map_err(BenchError::Ssh)?;
        let mut faults = Vec::new();
        for Done { host: number, .. } in &done {
            let host = &self.hosts[*number];
            let text = fs::read_to_string(self.ssh.file(*number, "check")).unwrap_or_default();
            let Some(facts) = Facts::parse(&text) else {
                let why = done[*number].failure().unwrap_or_else(|| "its answer is incomplete".to_owned());
                faults.push(fault(host, format!("cannot be checked: {why}"), "it needs a POSIX shell and coreutils"));
                continue;
            };
            let ports = self.places.get(*number).map(ports).unwrap_or_default();
            let needs = Needs { system: system.clone(), program_bytes: bytes, ports, profile };
            faults.extend(facts.faults(host, &needs));
            self.warnings.extend(facts.warnings(host, facts.clock_ns.map(|clock| seconds_ahead(clock, begun))));
            self.facts.push(facts);
        }
        if faults.is_empty() { Ok(()) } else { Err(BenchError::Hosts(faults)) }
    }

    /// Copies the program to the hosts that lack it, and returns their number.
    ///
    /// # Errors
    /// The hosts on which it failed.
    pub fn copy(&self, watcher: &mut dyn Watcher) -> Result<usize, BenchError> {
        let lacks = |number: &usize| self.facts[*number].digest.as_ref() != Some(&self.digest);
        let mut jobs = Vec::new();
        for number in (0..self.hosts.len()).filter(lacks) {
            let host = &self.hosts[number];
            let mut command = self.ssh.run(number, host, &copy::command(&host.directory, &self.digest));
            command.stdin(File::open(&self.program).map_err(BenchError::Ssh)?);
            jobs.push(Job { host: number, command, out: self.ssh.file(number, "copy") });
        }
        let count = jobs.len();
        if count > 0 {
            let text = format!("copies the program to {count} of {} hosts", self.hosts.len());
            watcher.event(&Event { time_s: 0.0, text });
        }
        let failed = |done: &Done| {
            let why = done.failure()?;
            Some(fault(
                &self.hosts[done.host],
                format!("cannot store the program: {why}"),
                "see to its disk, then try again",
            ))
        };
        let faults: Vec<Fault> = finished(run_all(jobs, COPY_TIMEOUT))?.iter().filter_map(failed).collect();
        if faults.is_empty() { Ok(count) } else { Err(BenchError::Hosts(faults)) }
    }

    /// Describes the placement, a line for each host.
    pub fn describe(&self) -> String {
        let mut lines = Vec::new();
        for (number, (host, facts)) in self.hosts.iter().zip(&self.facts).enumerate() {
            let what = match self.places.get(number) {
                Some(place) => format!("replica {number} at {}", place.peers),
                None => format!("client machine {}", number - self.places.len()),
            };
            let region = host.region.as_ref().map(|region| format!(", {region}")).unwrap_or_default();
            let copied = if facts.digest.is_some() { "has the program" } else { "lacks the program" };
            lines.push(format!(
                " {:<20}  {what}{region}; {}, {} cores, {} MB free, {copied}",
                host.name,
                facts.system,
                facts.cores,
                facts.free_bytes / 1_000_000,
            ));
        }
        lines.extend(self.warnings.iter().map(|warning| format!(" warning: {warning}")));
        lines.join("\n")
    }
}

/// Returns the finished jobs.
pub fn finished(jobs: io::Result<Option<Vec<Done>>>) -> Result<Vec<Done>, BenchError> {
    jobs.map_err(BenchError::Ssh)?.ok_or(BenchError::Interrupted)
}

fn ports(place: &Place) -> Vec<u16> {
    [&place.peers, &place.clients, &place.operators, &place.monitors].map(Address::port).to_vec()
}

/// Returns by how many seconds a clock is ahead of `begun`. The time of the check itself makes it too large.
fn seconds_ahead(clock_ns: i64, begun: SystemTime) -> f64 {
    let own = begun.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    clock_ns.saturating_sub(own) as f64 / 1e9
}

/// Returns this machine's operating system and architecture, as in `uname -sm`.
fn system() -> io::Result<String> {
    let output = Command::new("uname").arg("-sm").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
