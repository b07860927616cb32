//! Cells of the instrument `analytical`: `quorate model`.

use crate::flags::{self, Flags};
use clap::{Args, Command, FromArgMatches};
use quorate_experiments::{Cell, Plan};
use quorate_lab::model::{ModelOptions, Protocol};
use quorate_types::Fault;

const PROTOCOL: &str = "protocol";
/// Formulas have no chance, but `lab run --seed` sets the seed of all cells.
const SEED: &str = "seed";

const MODEL: Flags = Flags { command: model_flags, help: "see `quorate model --help`" };

fn model_flags() -> Command {
    ModelOptions::augment_args(Command::new("model").no_binary_name(true))
}

/// A call of `quorate model`.
#[derive(Clone, Debug)]
pub struct Formulas {
    protocol: Protocol,
    /// Flags.
    words: Vec<String>,
}

/// Returns the keys that the instrument takes.
pub fn keys() -> Vec<String> {
    let mut keys = flags::keys_of(&model_flags());
    keys.push(PROTOCOL.to_owned());
    keys
}

impl Formulas {
    /// Returns the call for a cell, checked as the command checks its flags.
    ///
    /// # Errors
    /// The place in the experiment file, what is wrong, and what to do.
    pub fn of(plan: &Plan, cell: &Cell) -> Result<Formulas, Fault> {
        let place = |key: &str| plan.experiment.place_of(plan.profile, cell.instrument, key);
        let mut table = cell.specification.clone();
        table.remove(SEED);
        let name = table.remove(PROTOCOL).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
        let protocol: Protocol = name.parse().map_err(|error: quorate_types::choice::UnknownName| {
            Fault::new(place(PROTOCOL), error.to_string(), "set the protocol that the formulas describe")
        })?;
        let (words, parsed) = MODEL.words_of(plan, cell, &table)?;
        let options =
            ModelOptions::from_arg_matches(&parsed).map_err(|error| MODEL.refused(&plan.experiment.file, &error))?;
        options.question(protocol).map_err(|fault| {
            let what = format!("the cell {}: {}: {}", cell.label(), fault.place, fault.what);
            let key = fault.place.trim_start_matches('-').replace('-', "_");
            let at = if table.contains_key(&key) { place(&key) } else { plan.experiment.file.clone() };
            Fault::new(at, what, fault.help)
        })?;
        Ok(Formulas { protocol, words })
    }

    /// Returns the arguments after `quorate`.
    pub fn arguments(&self) -> Vec<String> {
        let command = ["model".to_owned(), self.protocol.name().to_owned()];
        command.into_iter().chain(self.words.iter().cloned()).collect()
    }
}
