//! Reading of configuration files, with errors that name their location.

use quorate_storage::private;
use quorate_types::Fault;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Tables with a former name that is still read, beside the present one. Fields have it as an alias.
const FORMER_TABLES: [(&str, &str); 1] = [("admin", "monitoring")];

/// Location of a setting: its table, the table's position if there are several of that name, and its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    table: Option<(&'static str, usize)>,
    key: Option<&'static str>,
}

impl Place {
    /// Returns the place of a key outside all tables.
    pub fn key(key: &'static str) -> Place {
        Place { table: None, key: Some(key) }
    }

    /// Returns the place of a whole table.
    pub fn table(table: &'static str) -> Place {
        Place { table: Some((table, 0)), key: None }
    }

    /// Returns the place of a key in a table.
    pub fn in_table(table: &'static str, key: &'static str) -> Place {
        Place { table: Some((table, 0)), key: Some(key) }
    }

    /// Returns the place of a path such as `consensus.window`.
    pub(crate) fn of(path: &'static str) -> Place {
        path.rsplit_once('.').map_or_else(|| Place::key(path), |(table, key)| Place::in_table(table, key))
    }

    /// Returns the place of a member's key.
    pub fn member(at: usize, key: &'static str) -> Place {
        Place { table: Some(("members", at)), key: Some(key) }
    }

    /// Returns the line of the setting, from 1, or that of its table if the key is absent.
    fn line(&self, text: &str) -> Option<usize> {
        let present = |name| FORMER_TABLES.iter().find(|(former, _)| *former == name).map_or(name, |(_, now)| *now);
        let mut table = None;
        let mut seen = 0;
        let mut found = None;
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(header) = line.strip_prefix('[') {
                table = Some(present(header.trim_matches(['[', ']', ' '])));
                if table == self.table.map(|(name, _)| name) {
                    if self.table.is_some_and(|(_, position)| position == seen) {
                        found = Some(at + 1);
                    }
                    seen += 1;
                }
                continue;
            }
            let here = table == self.table.map(|(name, _)| name)
                && self.table.is_none_or(|(_, position)| position + 1 == seen);
            let named = line.split_once('=').map(|(key, _)| key.trim());
            if here && named.is_some() && named == self.key {
                return Some(at + 1);
            }
        }
        found
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.table, self.key) {
            (Some(("members", at)), Some(key)) => write!(f, "`members[{at}].{key}`"),
            (Some((table, _)), Some(key)) => write!(f, "`{table}.{key}`"),
            (Some((table, _)), None) => write!(f, "`{table}`"),
            (None, key) => write!(f, "`{}`", key.unwrap_or_default()),
        }
    }
}

/// Invalid setting.
pub type ConfigFault = Fault<Place>;

/// Error in a configuration file: where, what is wrong, and what to do.
#[derive(Debug, Error)]
#[error("{}{}: {fault}", path.display(), line.map(|line| format!(" line {line}")).unwrap_or_default())]
pub struct ConfigFileError {
    pub path: PathBuf,
    /// Line, from 1; `None` if unknown.
    pub line: Option<usize>,
    pub fault: ConfigFileFault,
}

/// Kind of error in a configuration file.
#[derive(Debug, Error)]
pub enum ConfigFileFault {
    #[error("cannot read it: {0}; help: name a directory made by `quorate testnet`")]
    Io(#[source] io::Error),
    #[error("it is not text in UTF-8; help: save it in that encoding, or restore it from a backup")]
    NotText,
    #[error("it is longer than {0} bytes, so it is not a configuration file")]
    TooLong(u64),
    /// The file is not TOML, or a key is unknown, missing or of the wrong type.
    #[error(
        "{}{why}; help: {}",
        key.as_ref().map(|key| format!("`{key}`: ")).unwrap_or_default(), help(key.as_deref(), why)
    )]
    Syntax { key: Option<String>, why: String },
    /// A setting is invalid.
    #[error(transparent)]
    Setting(Box<ConfigFault>),
}

/// Returns advice for a line that cannot be read.
fn help(key: Option<&str>, why: &str) -> &'static str {
    /// Keys without a default.
    const NEEDED: [&str; 4] = ["cluster", "replica", "address", "identity_key"];
    match key {
        Some("public_key") => {
            "members have an `identity_key` and a `voting_key` now: make a new cluster with `quorate testnet`"
        }
        Some("phases_only") => "leave it out, and write `protocol = \"pbft-phases\"` in [consensus] instead",
        Some("repeat" | "pre_prepare_repeat" | "repeat_pre_prepare" | "remedy") => {
            "leave it out, or move it to [reproduction.copies], for a replica that `quorate node` runs"
        }
        Some("crypto_threads") => {
            "leave it out, and write `replica_threads` instead: it counts the core's thread, one for the network, and \
             those that verify"
        }
        _ if why.starts_with("missing field") => "add it: it has no default",
        Some(key) if NEEDED.contains(&key) => "correct the line",
        _ => "correct the line, or leave the key out for its default",
    }
}

impl ConfigFileError {
    /// Adds the line to an invalid setting.
    pub(crate) fn at_key(path: &Path, text: &str, fault: ConfigFault) -> ConfigFileError {
        let line = fault.place.line(text);
        ConfigFileError { path: path.to_owned(), line, fault: ConfigFileFault::Setting(Box::new(fault)) }
    }
}

/// Reads a text file of at most `most` bytes.
pub(crate) fn read_text(path: &Path, most: u64) -> Result<String, ConfigFileError> {
    let fail = |fault| ConfigFileError { path: path.to_owned(), line: None, fault };
    let mut text = String::new();
    let read = private::open_regular(path).and_then(|file| file.take(most + 1).read_to_string(&mut text));
    read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => fail(ConfigFileFault::NotText),
        _ => fail(ConfigFileFault::Io(error)),
    })?;
    match text.len() as u64 > most {
        true => Err(fail(ConfigFileFault::TooLong(most))),
        false => Ok(text),
    }
}

/// Parses TOML. An error carries the line and, if the line has one, the key.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, ConfigFileError> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map(|span| span.start).filter(|start| *start > 0);
        let line = start.map(|start| text[..start].matches('\n').count() + 1);
        let key = line.and_then(|line| text.lines().nth(line - 1)).and_then(|line| line.split_once('='));
        let key = key.map(|(key, _)| key.trim().to_owned());
        let why = error.message().to_owned();
        ConfigFileError { path: path.to_owned(), line, fault: ConfigFileFault::Syntax { key, why } }
    })
}
