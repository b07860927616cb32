//! Converts a cell to the command that runs it.

use crate::flags::{self, Flags};
use crate::formulas::{self, Formulas};
use crate::peer::{self, Peer};
use crate::scenarios::{self, Scenarios};
use clap::{Args, Command, FromArgMatches};
use quorate_lab::bench::{
    DeploymentOptions, EmulationOptions, Workers, emulation_obstacle, place_on_hosts, read_hosts, resolve,
};
use quorate_lab::experiments::{Cell, Instrument, Plan};
use quorate_lab::figures::Outcome;
use quorate_lab::sim::{ClientPlaces, SimError, SimOptions, sim_spec};
use quorate_lab::spec::{
    BenchSpec, Host, IdleKey, Problem, SpecError, WorkloadKind, is_of_reproduction, keys_of_flags, keys_of_reproduction,
};
use quorate_simulator::{CostTable, NetworkSpec};
use quorate_types::Fault;
use quorate_types::text::quote;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Keys of `bench` and `sim` that an experiment cannot set: they name outputs, or are set by the runner.
const OF_THE_RUNNER: &[&str] = &["json", "report", "record", "record_limit_mb", "seeds", "spec"];

/// Command line of one cell.
#[derive(Clone, Debug)]
pub enum Call {
    /// `quorate bench`, with the network options of `--host emulated`.
    Bench(Box<BenchSpec>, EmulationOptions),
    /// `quorate bench --host deployed`. Without hosts it cannot run.
    Deployed(Box<BenchSpec>, DeploymentOptions),
    /// `quorate sim`.
    Sim(Box<BenchSpec>, SimOptions),
    /// `quorate twins run` or `quorate museum`.
    Scenarios(Scenarios),
    /// `quorate model`.
    Formulas(Formulas),
    /// `quorate peer run`.
    Peer(Box<Peer>),
}

/// Expected time of a call without a load duration.
const TYPICAL_TIME: Duration = Duration::from_secs(10);

/// Files on which cells depend, besides those that they name.
#[derive(Clone, Copy, Default, Debug)]
pub struct Files<'a> {
    /// Cost table of simulations that name none.
    pub costs: Option<&'a str>,
    /// Hosts of deployed cells.
    pub hosts: Option<&'a str>,
}

/// Expected time to evaluate formulas.
const FORMULAS_TIME: Duration = Duration::from_millis(300);

const SIM: Flags = Flags { command: flags_of_sim, help: "see `quorate sim --help`" };
const EMULATION: Flags = Flags { command: flags_of_emulation, help: "see `quorate bench --help`" };
/// Key set by the instrument itself.
const HOST: &str = "host";

/// Returns the keys that an instrument accepts.
pub fn known(instrument: Instrument) -> Vec<String> {
    let bench = keys_of_flags().chain(keys_of_reproduction().iter().copied());
    let bench: Vec<String> = bench.filter(|key| !OF_THE_RUNNER.contains(key)).map(str::to_owned).collect();
    match instrument {
        Instrument::Real => [bench, peer::keys()].concat(),
        Instrument::Simulated => [bench, own_keys(&flags_of_sim())].concat(),
        Instrument::Scenarios => scenarios::keys(),
        Instrument::Analytical => formulas::keys(),
        Instrument::Deployed => bench.into_iter().filter(|key| key != HOST).collect(),
        Instrument::Emulated => {
            let cluster = bench.into_iter().filter(|key| key != HOST);
            cluster.chain(own_keys(&flags_of_emulation())).collect()
        }
    }
}

fn flags_of_emulation() -> Command {
    EmulationOptions::augment_args(Command::new("bench").no_binary_name(true))
}

fn flags_of_sim() -> Command {
    SimOptions::augment_args(Command::new("sim").no_binary_name(true))
}

fn own_keys(command: &Command) -> Vec<String> {
    let mut keys = flags::keys_of(command);
    keys.retain(|key| !OF_THE_RUNNER.contains(&key.as_str()));
    keys
}

impl Call {
    /// Returns the call for a cell, checked like the flags of the command.
    ///
    /// # Errors
    /// The place in the experiment file, the problem and the remedy.
    pub fn of(plan: &Plan, cell: &Cell, files: Files<'_>) -> Result<Call, Fault> {
        match cell.instrument {
            Instrument::Scenarios => Scenarios::of(plan, cell).map(Call::Scenarios),
            Instrument::Analytical => Formulas::of(plan, cell).map(Call::Formulas),
            Instrument::Real | Instrument::Emulated | Instrument::Deployed | Instrument::Simulated => {
                Call::of_cluster(plan, cell, files)
            }
        }
    }

    fn of_cluster(plan: &Plan, cell: &Cell, files: Files<'_>) -> Result<Call, Fault> {
        if let Some(peer) = Peer::of(plan, cell)? {
            return Ok(Call::Peer(Box::new(peer)));
        }
        let flags = if cell.instrument == Instrument::Emulated { EMULATION } else { SIM };
        let own = own_keys(&(flags.command)());
        let (mut of_host, mut of_bench, mut switches) = (toml::Table::new(), toml::Table::new(), toml::Table::new());
        for (key, value) in cell.specification.iter().filter(|(key, _)| *key != peer::SYSTEM) {
            let table = match own.contains(key) {
                true => &mut of_host,
                false if is_of_reproduction(key) => &mut switches,
                false => &mut of_bench,
            };
            table.insert(key.clone(), value.clone());
        }
        let overrides = plan.experiment.profiles.get(&plan.profile).map(|overrides| &overrides.base);
        for base in overrides.into_iter().chain([&plan.experiment.base]) {
            let outside = |key: &String| base.place_outside_switches(cell.instrument, key);
            if let Some(place) = switches.keys().find_map(outside) {
                let help = "move it to the table [base.reproduction], or [base.INSTRUMENT.reproduction]";
                return Err(Fault::new(place, "is a switch that reproduces a paper", help));
            }
        }
        of_bench.insert("reproduction".to_owned(), toml::Value::Table(switches));
        let text = toml::to_string(&of_bench).map_err(|error| not_toml(plan, &error))?;
        let name = &plan.experiment.file;
        let mut spec = BenchSpec::of_cell(&text, name).map_err(|error| blame(plan, cell, &of_bench, error))?;
        refuse_idle(plan, cell, &spec)?;
        if cell.instrument != Instrument::Simulated {
            spec.validate_real_faults().map_err(|error| blame(plan, cell, &of_bench, error))?;
        }
        if cell.instrument == Instrument::Real {
            return Ok(Call::Bench(Box::new(spec), EmulationOptions::default()));
        }
        if cell.instrument == Instrument::Deployed {
            spec.host = Host::Deployed;
            let of = |hosts: &str| DeploymentOptions { hosts: Some(hosts.to_owned()), ..DeploymentOptions::default() };
            // Everything but the hosts is checked without them, too.
            of(files.hosts.unwrap_or_default()).fit(&spec).map_err(|error| blame(plan, cell, &of_bench, error))?;
            return Ok(Call::Deployed(Box::new(spec), files.hosts.map(of).unwrap_or_default()));
        }
        let (_, parsed) = flags.words_of(plan, cell, &of_host)?;
        let refused = |error| flags.refused(&plan.experiment.file, &error);
        if cell.instrument == Instrument::Emulated {
            spec.host = Host::Emulated;
            let options = EmulationOptions::from_arg_matches(&parsed).map_err(refused)?;
            resolve(&spec, &options).map_err(|error| blame_simulation(plan, cell, error))?;
            return Ok(Call::Bench(Box::new(spec), options));
        }
        let mut options = SimOptions::from_arg_matches(&parsed).map_err(refused)?;
        if options.costs.is_none() {
            options.costs = files.costs.map(str::to_owned);
        }
        sim_spec(&spec, &options).map_err(|error| blame_simulation(plan, cell, error))?;
        Ok(Call::Sim(Box::new(spec), options))
    }

    /// Returns the reason why this machine or build cannot run the call; `None` if it can.
    pub fn obstacle(&self) -> Option<String> {
        match self {
            Call::Bench(spec, _) => {
                let lacks = spec.lacking_cores().map(|what| format!("--cores: {what}"));
                lacks.or_else(|| emulation_obstacle().filter(|_| spec.host == Host::Emulated))
            }
            Call::Deployed(spec, options) => obstacle_on_hosts(spec, options),
            Call::Sim(..) | Call::Formulas(_) => None,
            Call::Scenarios(scenarios) => scenarios.obstacle(),
            Call::Peer(peer) => peer.obstacle(),
        }
    }

    /// Returns the reason why no worker can run the call; `None` if any of them can.
    pub fn obstacle_on(&self, workers: &Workers) -> Option<String> {
        match self {
            Call::Bench(spec, _) => {
                let least = (0..workers.count()).map(|host| workers.slots(host)).min().unwrap_or(0);
                let lacks = spec.cores as usize > least;
                let lacks = lacks.then(|| format!("--cores: {} are more than the {least} of a host", spec.cores));
                let emulates = spec.host == Host::Emulated;
                lacks.or_else(|| workers.difference()).or_else(|| workers.no_emulation().filter(|_| emulates))
            }
            Call::Deployed(..) => Some("a deployment takes all hosts at once; use --hosts without --on ssh".to_owned()),
            Call::Sim(..) | Call::Formulas(_) => None,
            Call::Scenarios(scenarios) => scenarios.obstacle().or_else(|| workers.difference()),
            Call::Peer(_) => Some("hosts have no source of other systems; run it without --on ssh".to_owned()),
        }
    }

    /// Shows each path of a file that the call reads to `visit`, which may replace it.
    fn visit_files(&mut self, visit: &mut dyn FnMut(&mut PathBuf)) {
        let mut visit_text = |text: &mut String| {
            let mut path = PathBuf::from(&*text);
            visit(&mut path);
            *text = path.display().to_string();
        };
        let is_network = |name: &str| NetworkSpec::preset(name).is_none();
        match self {
            Call::Bench(_, options) => {
                options.network.iter_mut().filter(|name| is_network(name)).for_each(&mut visit_text);
            }
            Call::Deployed(_, options) => options.hosts.iter_mut().for_each(&mut visit_text),
            Call::Sim(_, options) => {
                if is_network(&options.network) {
                    visit_text(&mut options.network);
                }
                options.costs.iter_mut().filter(|name| CostTable::named(name).is_none()).for_each(&mut visit_text);
                if let Some(ClientPlaces::File(path)) = &mut options.clients_at {
                    visit_text(path);
                }
            }
            Call::Peer(peer) if peer.0.is_file() => visit_text(&mut peer.0.system),
            Call::Scenarios(_) | Call::Formulas(_) | Call::Peer(_) => {}
        }
        if let Call::Bench(spec, _) | Call::Deployed(spec, _) | Call::Sim(spec, _) = self
            && let WorkloadKind::File(path) = &mut spec.workload
        {
            visit(path);
        }
    }

    /// Returns the files that the call reads.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        self.clone().visit_files(&mut |path| files.push(path.clone()));
        files
    }

    /// Returns the call with other paths of the files that it reads.
    pub fn with_files(&self, place: &dyn Fn(&Path) -> PathBuf) -> Call {
        let mut call = self.clone();
        call.visit_files(&mut |path| *path = place(path));
        call
    }

    /// Returns the call for a repetition. Each repetition has the next seed.
    pub fn repetition(&self, repetition: u32) -> Call {
        let mut call = self.clone();
        let seed = match &mut call {
            Call::Bench(spec, _) | Call::Deployed(spec, _) | Call::Sim(spec, _) => &mut spec.seed,
            Call::Scenarios(scenarios) => &mut scenarios.seed,
            // Formulas have no randomness, and other systems no seed.
            Call::Formulas(_) | Call::Peer(_) => return call,
        };
        *seed = seed.saturating_add(u64::from(repetition)).min(i64::MAX as u64);
        call
    }

    pub fn seed(&self) -> u64 {
        match self {
            Call::Bench(spec, _) | Call::Deployed(spec, _) | Call::Sim(spec, _) => spec.seed,
            Call::Scenarios(scenarios) => scenarios.seed,
            Call::Formulas(_) | Call::Peer(_) => 0,
        }
    }

    /// Returns the arguments after `quorate`.
    pub fn arguments(&self) -> Vec<String> {
        match self {
            Call::Bench(spec, options) => [spec.arguments(), options.arguments()].concat(),
            Call::Deployed(spec, options) => [spec.arguments(), options.arguments()].concat(),
            Call::Sim(spec, options) => {
                let mut words = spec.arguments();
                "sim".clone_into(&mut words[0]);
                words.extend(options.arguments());
                words
            }
            Call::Scenarios(scenarios) => scenarios.arguments(),
            Call::Formulas(formulas) => formulas.arguments(),
            Call::Peer(peer) => peer.arguments(),
        }
    }

    /// Returns the command, quoted for a shell.
    pub fn command_line(&self) -> String {
        let words = self.arguments();
        std::iter::once("quorate").chain(words.iter().map(String::as_str)).map(quote).collect::<Vec<_>>().join(" ")
    }

    /// Parses the result of the call from its JSON.
    ///
    /// # Errors
    /// If it is not the JSON of this command.
    pub fn outcome(&self, json: &str) -> serde_json::Result<Outcome> {
        Ok(match self {
            Call::Bench(..) | Call::Deployed(..) => Outcome::Bench(serde_json::from_str(json)?),
            Call::Sim(..) => Outcome::Sim(serde_json::from_str(json)?),
            Call::Scenarios(scenarios) if scenarios.is_museum => Outcome::Museum(serde_json::from_str(json)?),
            Call::Scenarios(_) => Outcome::Twins(serde_json::from_str(json)?),
            Call::Formulas(formulas) if formulas.is_plan => Outcome::Plan(serde_json::from_str(json)?),
            Call::Formulas(_) => Outcome::Model(serde_json::from_str(json)?),
            Call::Peer(_) => Outcome::Peer(serde_json::from_str(json)?),
        })
    }

    /// Returns the time under load, real or simulated; an estimate for scenarios.
    pub fn load_time(&self) -> Duration {
        match self {
            Call::Bench(spec, _) | Call::Deployed(spec, _) | Call::Sim(spec, _) => {
                Duration::from(spec.warmup) + Duration::from(spec.duration)
            }
            Call::Peer(peer) => Duration::from(peer.0.warmup) + Duration::from(peer.0.duration),
            Call::Scenarios(_) => TYPICAL_TIME,
            Call::Formulas(_) => FORMULAS_TIME,
        }
    }
}

/// Returns the reason why a spec cannot run on the hosts; `None` if it may.
fn obstacle_on_hosts(spec: &BenchSpec, options: &DeploymentOptions) -> Option<String> {
    let Some(file) = &options.hosts else { return Some("there are no hosts; name them with --hosts".to_owned()) };
    let placed = read_hosts(Path::new(file)).and_then(|hosts| place_on_hosts(&hosts, spec, file));
    placed.err().map(|fault| fault.to_string())
}

/// Refuses a key that the experiment fixes and that has no effect, unless an axis or the instruments vary the key that
/// decides.
fn refuse_idle(plan: &Plan, cell: &Cell, spec: &BenchSpec) -> Result<(), Fault> {
    /// Keys whose values follow from the instrument.
    const OF_INSTRUMENTS: [&str; 2] = [HOST, "journal"];
    let spec = match cell.instrument {
        Instrument::Emulated => &BenchSpec { host: Host::Emulated, ..spec.clone() },
        Instrument::Deployed => &BenchSpec { host: Host::Deployed, ..spec.clone() },
        _ => spec,
    };
    let varies = |key: &str| plan.varies(key) || OF_INSTRUMENTS.contains(&key) && plan.instruments.len() > 1;
    match spec.idle_keys().into_iter().find(|idle| idle.is_fixed(varies)) {
        None => Ok(()),
        Some(IdleKey { key, reason, help, .. }) => {
            let place = plan.experiment.place_of(plan.profile, cell.instrument, key);
            Err(Fault::new(place, format!("{}: has no effect, because {reason}", cell.title()), help))
        }
    }
}

fn not_toml(plan: &Plan, error: &toml::ser::Error) -> Fault {
    Fault::new(plan.experiment.file.as_str(), error.to_string(), "use smaller numbers")
}

/// Returns the place of the key behind a flag, such as `--batch 5` or `--reproduction batch_wait_ms`; the file if it
/// names none.
fn place_of_flag(plan: &Plan, cell: &Cell, flag: &str) -> String {
    let words = flag.split(|c: char| !c.is_ascii_alphanumeric() && !['-', '_'].contains(&c));
    let mut keys = words.filter_map(|word| match word.strip_prefix("--") {
        Some(flag) => Some(flag.replace('-', "_")),
        None => is_of_reproduction(word).then(|| word.to_owned()),
    });
    match keys.find(|key| cell.specification.contains_key(key)) {
        Some(key) => plan.experiment.place_of(plan.profile, cell.instrument, &key),
        None => plan.experiment.file.clone(),
    }
}

/// Converts a specification's error to one that names the place in the experiment file.
fn blame(plan: &Plan, cell: &Cell, table: &toml::Table, error: SpecError) -> Fault {
    match error {
        SpecError::Impossible(problems) => {
            let mut faults = problems.into_iter().map(|Problem { place, what, help }| {
                let at = place_of_flag(plan, cell, &place);
                Fault::new(at, format!("{}: {place}: {what}", cell.title()), help)
            });
            faults.next().expect("an impossible specification has a problem")
        }
        SpecError::File(problem) => {
            // The faulty value is refused again if it is alone in a file, which identifies it.
            let switches = table.get("reproduction").and_then(toml::Value::as_table);
            let is_wrong = |(key, value): &(&String, &toml::Value)| {
                let mut alone = toml::Table::from_iter([((*key).clone(), (*value).clone())]);
                if is_of_reproduction(key) {
                    alone = toml::Table::from_iter([("reproduction".to_owned(), toml::Value::Table(alone))]);
                }
                let text = toml::to_string(&alone).unwrap_or_default();
                matches!(BenchSpec::of_cell(&text, ""), Err(SpecError::File(_)))
            };
            let key = switches.into_iter().flatten().chain(table).find(is_wrong).map(|(key, _)| key);
            let place = key.map(|key| plan.experiment.place_of(plan.profile, cell.instrument, key));
            problem.at(|_| place.unwrap_or_else(|| plan.experiment.file.clone()))
        }
        other => Fault::new(plan.experiment.file.as_str(), other.to_string(), "change the specification"),
    }
}

fn blame_simulation(plan: &Plan, cell: &Cell, error: SimError) -> Fault {
    let place = |key: &str| plan.experiment.place_of(plan.profile, cell.instrument, key);
    match error {
        SimError::Fault(fault) if fault.place.starts_with("--") => {
            fault.at(|at| format!("{}: {at}", place_of_flag(plan, cell, &at)))
        }
        SimError::Fault(fault) => fault.at(|at| format!("{}: {at}", place("network"))),
        SimError::Read { key, .. } => {
            let help = match key {
                "network" => "name a file that is there, or lan, wan4, us4, world12, loopback or lossmodel",
                "costs" => "write one with `quorate calibrate`",
                _ => "name a file that is there",
            };
            Fault::new(place(key), error.to_string(), help)
        }
        other => Fault::new(plan.experiment.file.as_str(), other.to_string(), "change the specification"),
    }
}
