//! Names of settings, for the errors about them.

use quorate_types::{Fault, settings};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Setting of this crate, in a table of the configuration file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    pub table: &'static str,
    pub key: &'static str,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}.{}`", self.table, self.key)
    }
}

/// Reason to refuse a setting: its key, the fault, and a remedy.
pub type ConfigError = Fault<Setting>;

/// Checks every integer of a table against its declared range.
pub(crate) fn check_ranges<T: JsonSchema + Serialize + 'static>(
    table: &'static str,
    value: &T,
) -> Result<(), ConfigError> {
    settings::check_ranges(value).map_err(|fault| fault.at(|key| Setting { table, key }))
}
