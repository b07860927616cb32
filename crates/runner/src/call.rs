//! From a cell to the command that runs it.

use clap::{Args, Command, FromArgMatches};
use quorate_experiments::{Cell, Instrument, Plan};
use quorate_lab::sim::{SimError, SimOptions, sim_spec};
use quorate_lab::spec::{BenchSpec, Problem, SpecError};
use quorate_types::Fault;
use quorate_types::text::quote;
use std::error::Error;
use std::time::Duration;

/// Keys of `bench` and `sim` that an experiment cannot set: they name outputs, or are set by the runner.
const OF_THE_RUNNER: &[&str] = &["json", "report", "record", "record_limit_mb", "seeds", "spec"];

/// A call of `quorate bench` or `quorate sim`.
#[derive(Clone, Debug)]
pub struct Call {
    pub spec: BenchSpec,
    /// Those of `quorate sim`; `None` for `quorate bench`.
    pub options: Option<SimOptions>,
}

/// Returns whether the program has an instrument.
pub fn is_available(instrument: Instrument) -> bool {
    known(instrument).is_some()
}

/// Returns the keys that an instrument takes; `None` if the program does not have the instrument.
pub fn known(instrument: Instrument) -> Option<Vec<String>> {
    let bench = keys_of(&BenchSpec::augment_args(Command::new("bench")));
    match instrument {
        Instrument::Real => Some(bench),
        Instrument::Simulated => Some([bench, keys_of(&flags_of_sim())].concat()),
        Instrument::Emulated | Instrument::Analytical => None,
    }
}

fn flags_of_sim() -> Command {
    SimOptions::augment_args(Command::new("sim").no_binary_name(true))
}

fn keys_of(command: &Command) -> Vec<String> {
    let keys = command.get_arguments().map(|argument| argument.get_id().as_str());
    keys.filter(|key| !OF_THE_RUNNER.contains(key)).map(str::to_owned).collect()
}

impl Call {
    /// Returns the call for a cell, checked as `bench` and `sim` check their flags; `None` if the program does not have
    /// the instrument. `costs` is the path of the cost table for simulations that name none.
    ///
    /// # Errors
    /// The place in the experiment file, what is wrong, and what to do.
    pub fn of(plan: &Plan, cell: &Cell, costs: Option<&str>) -> Result<Option<Call>, Fault> {
        if !is_available(cell.instrument) {
            return Ok(None);
        }
        let sim = keys_of(&flags_of_sim());
        let (mut of_sim, mut of_bench) = (toml::Table::new(), toml::Table::new());
        for (key, value) in &cell.specification {
            let table = if sim.contains(key) { &mut of_sim } else { &mut of_bench };
            table.insert(key.clone(), value.clone());
        }
        let text = toml::to_string(&of_bench).map_err(|error| not_toml(plan, &error))?;
        let name = &plan.experiment.file;
        let spec = BenchSpec::from_toml(&text, name).map_err(|error| blame(plan, cell, &of_bench, error))?;
        let options = match cell.instrument {
            Instrument::Simulated => {
                let mut options = options_of(plan, cell, &of_sim)?;
                if options.costs.is_none() {
                    options.costs = costs.map(str::to_owned);
                }
                sim_spec(&spec, &options).map_err(|error| blame_simulation(plan, cell, error))?;
                Some(options)
            }
            _ => {
                spec.validate_real().map_err(|error| blame(plan, cell, &of_bench, error))?;
                None
            }
        };
        Ok(Some(Call { spec, options }))
    }

    /// Returns the call for a repetition. Each has the next seed.
    pub fn repetition(&self, repetition: u32) -> Call {
        let seed = self.spec.seed.saturating_add(u64::from(repetition)).min(i64::MAX as u64);
        Call { spec: BenchSpec { seed, ..self.spec.clone() }, options: self.options.clone() }
    }

    /// Returns the arguments after `quorate`.
    pub fn arguments(&self) -> Vec<String> {
        let mut words = self.spec.arguments();
        if let Some(options) = &self.options {
            "sim".clone_into(&mut words[0]);
            words.extend(options.arguments());
        }
        words
    }

    /// Returns the command, quoted for a shell.
    pub fn command_line(&self) -> String {
        let words = self.arguments();
        std::iter::once("quorate").chain(words.iter().map(String::as_str)).map(quote).collect::<Vec<_>>().join(" ")
    }

    /// Returns the time under load, real or simulated.
    pub fn load_time(&self) -> Duration {
        Duration::from(self.spec.warmup) + Duration::from(self.spec.duration)
    }
}

fn not_toml(plan: &Plan, error: &toml::ser::Error) -> Fault {
    Fault::new(plan.experiment.file.as_str(), error.to_string(), "use smaller numbers")
}

fn options_of(plan: &Plan, cell: &Cell, table: &toml::Table) -> Result<SimOptions, Fault> {
    let mut words = Vec::new();
    for (key, value) in table {
        let word = word_of(key, value);
        let parsed = flags_of_sim().try_get_matches_from(word.iter());
        parsed.map_err(|error| {
            let (what, help) = reason(&error);
            Fault::new(plan.experiment.place_of(plan.profile, cell.instrument, key), what, help)
        })?;
        words.extend(word);
    }
    let parsed = flags_of_sim().try_get_matches_from(&words).and_then(|it| SimOptions::from_arg_matches(&it));
    parsed.map_err(|error| {
        let (what, help) = reason(&error);
        Fault::new(plan.experiment.file.as_str(), what, help)
    })
}

/// Returns the flag that sets a key; none for a switch that is off.
fn word_of(key: &str, value: &toml::Value) -> Option<String> {
    let flag = format!("--{}", key.replace('_', "-"));
    match value {
        toml::Value::Boolean(true) => Some(flag),
        toml::Value::Boolean(false) => None,
        toml::Value::String(text) => Some(format!("{flag}={text}")),
        other => Some(format!("{flag}={other}")),
    }
}

/// Returns what is wrong with a flag, and the help.
fn reason(error: &clap::Error) -> (String, String) {
    let whole = error.to_string();
    let first = whole.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let text = error.source().map_or(first, ToString::to_string);
    match text.split_once("; help: ") {
        Some((what, help)) => (what.to_owned(), help.to_owned()),
        None => (text, "see `quorate sim --help`".to_owned()),
    }
}

/// Returns where the key stands that a flag names, such as `--batch-wait-ms 5`; the file if it names none.
fn place_of_flag(plan: &Plan, cell: &Cell, flag: &str) -> String {
    let words = flag.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let mut keys = words.filter_map(|word| Some(word.strip_prefix("--")?.replace('-', "_")));
    match keys.find(|key| cell.specification.contains_key(key)) {
        Some(key) => plan.experiment.place_of(plan.profile, cell.instrument, &key),
        None => plan.experiment.file.clone(),
    }
}

/// Turns the error of a specification into one that names the place in the experiment file.
fn blame(plan: &Plan, cell: &Cell, table: &toml::Table, error: SpecError) -> Fault {
    match error {
        SpecError::Impossible(problems) => {
            let mut faults = problems.into_iter().map(|Problem { place, what, help }| {
                let at = place_of_flag(plan, cell, &place);
                Fault::new(at, format!("the cell {}: {place}: {what}", cell.label()), help)
            });
            faults.next().expect("an impossible specification has a problem")
        }
        SpecError::File(problem) => {
            // Alone in a file, the value at fault is refused again.
            let is_wrong = |(key, value): &(&String, &toml::Value)| {
                let alone = toml::Table::from_iter([((*key).clone(), (*value).clone())]);
                let text = toml::to_string(&alone).unwrap_or_default();
                matches!(BenchSpec::from_toml(&text, ""), Err(SpecError::File(_)))
            };
            let key = table.iter().find(is_wrong).map(|(key, _)| key);
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
                "network" => "name a file that is there, or lan, wan4, us4 or world12",
                "costs" => "write one with `quorate calibrate`",
                _ => "name a file that is there",
            };
            Fault::new(place(key), error.to_string(), help)
        }
        other => Fault::new(plan.experiment.file.as_str(), other.to_string(), "change the specification"),
    }
}
