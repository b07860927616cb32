//! Cells of the instrument `scenarios`: `quorate twins run`, or `quorate museum` if a cell names an exhibit.

use clap::{Args, Command, FromArgMatches};
use quorate_lab::experiments::{Cell, Plan};
use quorate_lab::twins::museum::{IS_BUILT, MuseumArgs};
use quorate_lab::twins::{RunArgs, space_of};
use quorate_types::Fault;

use crate::flags::{self, Flags};

/// Key that turns a cell into a search for reintroduced bugs.
const EXHIBIT: &str = "exhibit";
const SEED: &str = "seed";
/// Keys that an experiment cannot set: they name outputs and inputs.
const OF_THE_RUNNER: &[&str] = &["json", "save", "input", "transcript"];
/// Discards scenarios with violations: the row's command can find them again.
const NOWHERE: &str = "--save=/dev/null";

const TWINS: Flags = Flags { command: twins_flags, help: "see `quorate twins run --help`" };
const MUSEUM: Flags = Flags { command: museum_flags, help: "see `quorate museum --help`" };

fn twins_flags() -> Command {
    RunArgs::augment_args(Command::new("twins").no_binary_name(true))
}

fn museum_flags() -> Command {
    MuseumArgs::augment_args(Command::new("museum").no_binary_name(true))
}

/// A call of `quorate twins run` or `quorate museum`.
#[derive(Clone, Debug)]
pub struct Scenarios {
    pub(crate) is_museum: bool,
    /// Flags, without the seed.
    words: Vec<String>,
    /// Seed of repetition 0.
    pub seed: u64,
}

/// Returns the keys that the instrument accepts.
pub fn keys() -> Vec<String> {
    let mut keys = [flags::keys_of(&twins_flags()), flags::keys_of(&museum_flags())].concat();
    keys.retain(|key| !OF_THE_RUNNER.contains(&key.as_str()));
    keys
}

impl Scenarios {
    /// Returns the call for a cell, checked like the flags of the command.
    ///
    /// # Errors
    /// The place in the experiment file, the problem and the remedy.
    pub fn of(plan: &Plan, cell: &Cell) -> Result<Scenarios, Fault> {
        let mut table = cell.specification.clone();
        let is_museum = table.contains_key(EXHIBIT);
        if is_museum {
            // `lab run --seed` sets it for all cells, but searches for bugs have no seed.
            table.remove(SEED);
        }
        let set = if is_museum { MUSEUM } else { TWINS };
        let (words, parsed) = set.words_of(plan, cell, &table)?;
        let mut seed = 0;
        if !is_museum {
            let fault = |what: String| flags::fault(&plan.experiment.file, &what, TWINS.help);
            let arguments = RunArgs::from_arg_matches(&parsed).map_err(|error| fault(error.to_string()))?;
            let space = space_of(&arguments.shape).map_err(|error| fault(error.to_string()))?;
            arguments.choice.of(&space).map_err(|error| fault(error.to_string()))?;
            seed = arguments.choice.seed;
        }
        let is_seed = |word: &String| word.starts_with("--seed=");
        Ok(Scenarios { is_museum, words: words.into_iter().filter(|word| !is_seed(word)).collect(), seed })
    }

    /// Returns the arguments after `quorate`, for the seed.
    pub fn arguments(&self) -> Vec<String> {
        let command: &[&str] = if self.is_museum { &["museum"] } else { &["twins", "run", NOWHERE] };
        let mut words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        words.extend(self.words.iter().cloned());
        if !self.is_museum {
            words.push(format!("--seed={}", self.seed));
        }
        words
    }

    /// Returns the reason why this build cannot run the call, if it cannot.
    pub fn obstacle(&self) -> Option<String> {
        let lacks = self.is_museum && !IS_BUILT;
        lacks.then(|| "bugs can be put back only in a build with `--features museum`".to_owned())
    }
}
