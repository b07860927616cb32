//! Cells of the instrument `analytical`: `quorate model` and `quorate plan`.

use crate::flags::{self, Flags};
use clap::{Args, Command, FromArgMatches};
use quorate_lab::experiments::{Cell, Plan};
use quorate_lab::model::{ModelOptions, Protocol};
use quorate_lab::plan::{CpuOptions, FpgaOptions};
use quorate_types::{Fault, choice};

const PROTOCOL: &str = "protocol";
/// Key that selects a plan instead of a model.
const PLAN: &str = "plan";
/// Key without effect: formulas have no randomness, but `lab run --seed` sets the seed of all cells.
const SEED: &str = "seed";

const MODEL: Flags = Flags { command: model_flags, help: "see `quorate model --help`" };
const FPGA: Flags = Flags { command: fpga_flags, help: "see `quorate plan fpga --help`" };
const CPU: Flags = Flags { command: cpu_flags, help: "see `quorate plan cpu --help`" };

choice!(
    /// Hardware to plan for.
    Planned, "plan",
    Fpga = "fpga",
    Cpu = "cpu",
);

fn model_flags() -> Command {
    ModelOptions::augment_args(Command::new("model").no_binary_name(true))
}

fn fpga_flags() -> Command {
    FpgaOptions::augment_args(Command::new("fpga").no_binary_name(true))
}

fn cpu_flags() -> Command {
    CpuOptions::augment_args(Command::new("cpu").no_binary_name(true))
}

/// A call of `quorate model` or `quorate plan`.
#[derive(Clone, Debug)]
pub struct Formulas {
    pub(crate) is_plan: bool,
    /// The command and its flags.
    words: Vec<String>,
}

/// Returns the keys that the instrument accepts.
pub fn keys() -> Vec<String> {
    let mut keys: Vec<String> = [model_flags(), fpga_flags(), cpu_flags()].iter().flat_map(flags::keys_of).collect();
    keys.extend([PROTOCOL.to_owned(), PLAN.to_owned()]);
    keys.sort_unstable();
    keys.dedup();
    keys
}

impl Formulas {
    /// Returns the call for a cell, checked like the flags of the command.
    ///
    /// # Errors
    /// The place in the experiment file, the problem and the remedy.
    pub fn of(plan: &Plan, cell: &Cell) -> Result<Formulas, Fault> {
        let mut table = cell.specification.clone();
        table.remove(SEED);
        match table.contains_key(PLAN) {
            true => Formulas::of_plan(plan, cell, table),
            false => Formulas::of_model(plan, cell, table),
        }
    }

    fn of_model(plan: &Plan, cell: &Cell, mut table: toml::Table) -> Result<Formulas, Fault> {
        let help = "set the protocol that the formulas describe, or `plan`";
        let protocol: Protocol = named(plan, cell, &mut table, PROTOCOL, help)?;
        let (words, parsed) = MODEL.words_of(plan, cell, &table)?;
        let options =
            ModelOptions::from_arg_matches(&parsed).map_err(|error| MODEL.refused(&plan.experiment.file, &error))?;
        options.question(protocol).map_err(|fault| blame(plan, cell, &table, fault))?;
        let command = ["model".to_owned(), protocol.name().to_owned()];
        Ok(Formulas { is_plan: false, words: command.into_iter().chain(words).collect() })
    }

    fn of_plan(plan: &Plan, cell: &Cell, mut table: toml::Table) -> Result<Formulas, Fault> {
        let planned: Planned = named(plan, cell, &mut table, PLAN, "set what is planned")?;
        let flags = match planned {
            Planned::Fpga => FPGA,
            Planned::Cpu => CPU,
        };
        let (words, parsed) = flags.words_of(plan, cell, &table)?;
        let refused = |error: clap::Error| flags.refused(&plan.experiment.file, &error);
        let checked = match planned {
            Planned::Fpga => FpgaOptions::from_arg_matches(&parsed).map_err(refused)?.question().map(drop),
            Planned::Cpu => CpuOptions::from_arg_matches(&parsed).map_err(refused)?.question().map(drop),
        };
        checked.map_err(|fault| blame(plan, cell, &table, fault))?;
        let command = ["plan".to_owned(), planned.name().to_owned()];
        Ok(Formulas { is_plan: true, words: command.into_iter().chain(words).collect() })
    }

    /// Returns the arguments after `quorate`.
    pub fn arguments(&self) -> Vec<String> {
        self.words.clone()
    }
}

/// Removes and parses a key whose value is a name of an enumeration.
fn named<T: choice::Choice>(
    plan: &Plan,
    cell: &Cell,
    table: &mut toml::Table,
    key: &str,
    help: &str,
) -> Result<T, Fault> {
    let name = table.remove(key).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    let place = plan.experiment.place_of(plan.profile, cell.instrument, key);
    name.parse().map_err(|error: choice::UnknownName| Fault::new(place, error.to_string(), help))
}

/// Converts a flag's error to one that names the place in the experiment file.
fn blame(plan: &Plan, cell: &Cell, table: &toml::Table, fault: Fault) -> Fault {
    let what = format!("{}: {}: {}", cell.title(), fault.place, fault.what);
    let key = fault.place.trim_start_matches('-').replace('-', "_");
    let at = match table.contains_key(&key) {
        true => plan.experiment.place_of(plan.profile, cell.instrument, &key),
        false => plan.experiment.file.clone(),
    };
    Fault::new(at, what, fault.help)
}
