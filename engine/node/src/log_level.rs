//! Levels of a replica's log, by target.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Names of the levels, from nothing to everything.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Minimum levels to log, written as `info`, or `warn,quorate::network=debug`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct LogLevel(String);

impl LogLevel {
    /// Returns the parts: a target, or `None` for all others, and the name of its level.
    pub fn parts(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        self.0.split(',').map(|part| match part.split_once('=') {
            Some((target, level)) => (Some(target), level),
            None => (None, part),
        })
    }
}

impl Default for LogLevel {
    fn default() -> LogLevel {
        LogLevel("info".to_owned())
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<LogLevel, String> {
        let levels = LogLevel(text.to_owned());
        for (target, level) in levels.parts() {
            if !LEVELS.contains(&level) {
                return Err(format!("`{level}` is not a level; use error, warn, info, debug, trace or off"));
            }
            if let Some(target) = target.filter(|target| *target != "quorate" && !target.starts_with("quorate::")) {
                return Err(format!("`{target}` is not a target; use one that begins with quorate::"));
            }
        }
        Ok(levels)
    }
}

impl TryFrom<String> for LogLevel {
    type Error = String;

    fn try_from(text: String) -> Result<LogLevel, String> {
        text.parse()
    }
}

impl From<LogLevel> for String {
    fn from(level: LogLevel) -> String {
        level.0
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
