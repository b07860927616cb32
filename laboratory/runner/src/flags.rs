//! Converts the keys of a specification to flags of a command.

use clap::{ArgMatches, Command};
use quorate_lab::experiments::{Cell, Plan};
use quorate_types::Fault;
use std::error::Error;

/// The flags of a command.
#[derive(Clone, Copy)]
pub(crate) struct Flags {
    pub command: fn() -> Command,
    /// Remedy for errors that have none of their own.
    pub help: &'static str,
}

/// Returns the keys of a command's flags.
pub(crate) fn keys_of(command: &Command) -> Vec<String> {
    command.get_arguments().map(|argument| argument.get_id().as_str().to_owned()).collect()
}

impl Flags {
    /// Returns the flags for the keys of a cell, and the command's parse of them.
    ///
    /// # Errors
    /// The place of the first wrong key in the experiment file, the problem and the remedy.
    pub fn words_of(self, plan: &Plan, cell: &Cell, table: &toml::Table) -> Result<(Vec<String>, ArgMatches), Fault> {
        let mut words = Vec::new();
        for (key, value) in table {
            let word = word_of(key, value);
            (self.command)()
                .try_get_matches_from(word.iter())
                .map_err(|error| self.refused(&plan.experiment.place_of(plan.profile, cell.instrument, key), &error))?;
            words.extend(word);
        }
        let parsed = (self.command)().try_get_matches_from(&words);
        Ok((words, parsed.map_err(|error| self.refused(&plan.experiment.file, &error))?))
    }

    /// Converts a flag's error to one that names a place.
    pub fn refused(self, place: &str, error: &clap::Error) -> Fault {
        let whole = error.to_string();
        let first = whole.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        fault(place, &error.source().map_or(first, ToString::to_string), self.help)
    }
}

/// Returns an error. The text may end with a remedy of its own.
pub(crate) fn fault(place: &str, text: &str, help: &str) -> Fault {
    let (what, help) = text.split_once("; help: ").unwrap_or((text, help));
    Fault::new(place, what, help)
}

/// Returns the flag that sets a key; `None` for a switch that is off.
fn word_of(key: &str, value: &toml::Value) -> Option<String> {
    let flag = format!("--{}", key.replace('_', "-"));
    match value {
        toml::Value::Boolean(true) => Some(flag),
        toml::Value::Boolean(false) => None,
        toml::Value::String(text) => Some(format!("{flag}={text}")),
        other => Some(format!("{flag}={other}")),
    }
}
