//! Names of settings, for the errors about them.

use quorate_types::Fault;
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

/// Invalid setting.
pub type ConfigError = Fault<Setting>;

/// Returns an error for the first setting of a table that is 0.
pub(crate) fn refuse_zeros(table: &'static str, settings: &[(&'static str, u64)]) -> Result<(), ConfigError> {
    match settings.iter().find(|(_, value)| *value == 0) {
        Some((key, _)) => {
            Err(Fault::new(Setting { table, key }, "is 0", "set at least 1, or leave it out for its default"))
        }
        None => Ok(()),
    }
}
