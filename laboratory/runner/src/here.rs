//! This program and this machine, as far as they affect results.

use crate::call::Call;
use crate::error::RunnerError;
use quorate_lab::bench::DeploymentOptions;
use quorate_lab::experiments::Surroundings;
use quorate_lab::input;
use quorate_lab::result::{Machine, version};
use quorate_lab::sim::ClientPlaces;
use quorate_lab::spec::WorkloadKind;
use quorate_simulator::{CostTable, NetworkSpec};
use quorate_types::{Fault, Hasher, tags};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tag of the hash over the program's file.
const PROGRAM_TAG: [u8; 4] = tags::PROGRAM;
/// Tag of the hash over the files named in a specification.
const INPUT_TAG: [u8; 4] = tags::INPUT;
/// Digits of a digest shown in a row.
const SHOWN_DIGITS: usize = 16;
/// Machine of simulated rows: their results do not depend on it.
const VIRTUAL: &str = "virtual time";
/// Machine of analytical rows.
const FORMULAS: &str = "formulas";
/// Machines of deployed rows, which the hosts file among the inputs identifies.
const HOSTS: &str = "hosts";
/// Cost table in the program, which is identified by the build.
const SHIPPED: &str = "shipped";
/// Lines of `--version` that name a build: the version and the commit.
const VERSION_LINES: usize = 2;
/// Name of the cost table that is used by default.
pub const COSTS_FILE: &str = "costs.toml";

/// Inputs, besides the specification, that determine results.
#[derive(Clone, Debug)]
pub struct Here {
    /// The program that runs cells.
    pub program: PathBuf,
    pub build: String,
    pub machine: String,
    pub kernel: String,
    /// Path of the cost table for simulations that name none; `None` for the one in the program.
    pub costs: Option<String>,
    /// Path of the hosts file for deployed cells.
    pub hosts: Option<String>,
}

impl Here {
    /// Describes this machine, and `program`, which was built from `commit`.
    ///
    /// # Errors
    /// If the program's file cannot be read.
    pub fn new(program: PathBuf, commit: &str, costs: Option<String>) -> Result<Here, RunnerError> {
        let digest = digest(PROGRAM_TAG, &[&program])?;
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let machine = Machine::here();
        Ok(Here {
            build: format!("{} commit {commit} {profile} {digest}", version()),
            machine: name_of_machine(&machine),
            kernel: machine.kernel,
            program,
            costs,
            hosts: None,
        })
    }

    /// Describes this machine, and another build of this program.
    ///
    /// # Errors
    /// If its file cannot be read, or does not say its version.
    pub fn of_other(program: PathBuf) -> Result<Here, RunnerError> {
        let failed = |source| RunnerError::Start { program: program.clone(), source };
        let said = Command::new(&program).arg("--version").stdin(Stdio::null()).output().map_err(failed)?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let lines: Vec<&str> = text.lines().take(VERSION_LINES).map(str::trim).collect();
        if !said.status.success() || !lines.first().is_some_and(|line| line.starts_with("quorate ")) {
            let help = "name the program `quorate` of another build";
            return Err(Fault::new(program.display().to_string(), "does not say the version of quorate", help).into());
        }
        let build = format!("{} {}", lines.join(" "), digest(PROGRAM_TAG, &[&program])?);
        Ok(Here { build, ..Here::new(program, "", None)? })
    }

    /// Returns the inputs that determine a call's results.
    ///
    /// # Errors
    /// If a file named by the call cannot be read.
    pub fn surroundings(&self, call: &Call) -> Result<Surroundings, RunnerError> {
        let mut inputs: Vec<&Path> = Vec::new();
        if let Call::Bench(spec, _) | Call::Deployed(spec, _) | Call::Sim(spec, _) = call
            && let WorkloadKind::File(path) = &spec.workload
        {
            inputs.push(path);
        }
        let options = if let Call::Sim(_, options) = call { Some(options) } else { None };
        let network = match call {
            Call::Bench(_, options) => options.network.as_deref(),
            Call::Sim(_, options) => Some(options.network.as_str()),
            Call::Deployed(..) | Call::Scenarios(_) | Call::Formulas(_) | Call::Peer(_) => None,
        };
        inputs.extend(network.filter(|name| NetworkSpec::preset(name).is_none()).map(Path::new));
        if let Call::Deployed(_, DeploymentOptions { hosts: Some(hosts), .. }) = call {
            inputs.push(Path::new(hosts));
        }
        if let Call::Peer(peer) = call {
            inputs.extend(peer.recipe());
        }
        let places = options.and_then(|options| options.clients_at.as_ref());
        inputs.extend(places.and_then(ClientPlaces::file).map(Path::new));
        let inputs = if inputs.is_empty() { String::new() } else { digest(INPUT_TAG, &inputs)? };
        let (machine, costs) = match options {
            None if matches!(call, Call::Formulas(_)) => (FORMULAS.to_owned(), String::new()),
            None if matches!(call, Call::Deployed(..)) => (HOSTS.to_owned(), String::new()),
            None => (self.machine.clone(), String::new()),
            Some(options) => (VIRTUAL.to_owned(), name_of_costs(options.costs.as_deref())?),
        };
        let build = if let Call::Peer(peer) = call { peer.build() } else { self.build.clone() };
        Ok(Surroundings { build, machine, costs, inputs })
    }
}

/// Returns this machine's cost table if there is one: `costs.toml` in the directory of results or in the current one,
/// where `quorate calibrate` writes it.
pub fn calibrated(dir: &Path) -> Option<String> {
    let places = [dir.join(COSTS_FILE), PathBuf::from(COSTS_FILE)];
    places.iter().find(|path| path.is_file()).map(|path| path.display().to_string())
}

/// Describes a machine as rows do.
pub fn name_of_machine(machine: &Machine) -> String {
    format!("{}, {} cores, {} MB", machine.cpu, machine.cores, machine.memory_mb)
}

fn name_of_costs(costs: Option<&str>) -> Result<String, RunnerError> {
    let path = match costs {
        None => return Ok(SHIPPED.to_owned()),
        Some(name) if CostTable::named(name).is_some() => return Ok(name.to_owned()),
        Some(path) => Path::new(path),
    };
    let text = input::settings(path).map_err(RunnerError::read(path))?;
    let table = CostTable::parse(&text, &path.display().to_string())?;
    Ok(format!("{} {}", table.source, digest(INPUT_TAG, &[path])?))
}

/// Returns the first digits of a digest over the contents of a file.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(INPUT_TAG);
    hasher.update(bytes);
    hasher.finish().to_hex()[..SHOWN_DIGITS].to_owned()
}

/// Returns the first digits of a digest over files, each preceded by its length.
fn digest(tag: [u8; 4], files: &[impl AsRef<Path>]) -> Result<String, RunnerError> {
    let mut hasher = Hasher::new(tag);
    for path in files.iter().map(AsRef::as_ref) {
        hash_file(&mut hasher, path).map_err(RunnerError::read(path))?;
    }
    Ok(hasher.finish().to_hex()[..SHOWN_DIGITS].to_owned())
}

fn hash_file(hasher: &mut Hasher, path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    hasher.update(&file.metadata()?.len().to_le_bytes());
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
