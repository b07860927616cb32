//! `[base]`, `[repeat]` and `[profile.*]`: the specification, the repetitions, and each profile's changes to them.

use super::axis::Axis;
use crate::experiments::names::Instrument;
use crate::experiments::source::Table;
use quorate_types::{Choice, Fault};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of repetitions of a cell.
pub const MAX_REPETITIONS: u32 = 1000;
/// Default minimum number of repetitions of each cell.
pub const DEFAULT_MIN_REPETITIONS: u32 = 3;
/// Default maximum number of repetitions of each cell.
pub const DEFAULT_MAX_REPETITIONS: u32 = 10;

/// Table of switches that reproduce single papers. Axes and claims name its keys like any others.
const REPRODUCTION: &str = "reproduction";

/// Keys of the specification.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Base {
    /// Keys for every instrument.
    pub common: toml::Table,
    /// Keys for one instrument each, which override the common ones.
    pub own: BTreeMap<Instrument, toml::Table>,
    /// File, line and key of each value, by path: `batch`, `simulated.cores`.
    pub places: BTreeMap<String, String>,
    /// Paths of the keys in a table [`REPRODUCTION`].
    pub switches: BTreeSet<String>,
}

impl Base {
    pub(crate) fn read(table: &Table) -> Result<Base, Fault> {
        let mut base = Base::default();
        for (key, node) in table.nodes() {
            if key == REPRODUCTION {
                base.read_switches("", node.table()?, None)?;
                continue;
            }
            let Ok(instrument) = key.parse::<Instrument>() else {
                if node.is_table() {
                    let names = Instrument::names().join(", ");
                    let help = format!("tables are `{REPRODUCTION}`, and for the instruments: {names}");
                    return Err(node.fault("is a table", help));
                }
                base.common.insert(key.clone(), node.value()?.to_toml());
                base.places.insert(key, node.place());
                continue;
            };
            for (own, node) in node.table()?.nodes() {
                if own == REPRODUCTION {
                    base.read_switches(&format!("{key}."), node.table()?, Some(instrument))?;
                    continue;
                }
                base.own.entry(instrument).or_default().insert(own.clone(), node.value()?.to_toml());
                base.places.insert(format!("{key}.{own}"), node.place());
            }
        }
        Ok(base)
    }

    /// Adds the keys of a table of switches, for one instrument or for all.
    fn read_switches(&mut self, path: &str, table: Table, instrument: Option<Instrument>) -> Result<(), Fault> {
        let own = instrument.map(|instrument| self.own.entry(instrument).or_default());
        let keys = own.unwrap_or(&mut self.common);
        for (key, node) in table.nodes() {
            keys.insert(key.clone(), node.value()?.to_toml());
            self.places.insert(format!("{path}{key}"), node.place());
            self.switches.insert(format!("{path}{key}"));
        }
        Ok(())
    }

    /// Returns the place of a key outside the tables of switches, for an instrument or for all.
    pub fn place_outside_switches(&self, instrument: Instrument, key: &str) -> Option<&str> {
        let paths = [format!("{instrument}.{key}"), key.to_owned()];
        let path = paths.iter().find(|path| self.places.contains_key(*path) && !self.switches.contains(*path))?;
        Some(&self.places[path])
    }

    /// Returns the place of a key, for an instrument or for all.
    pub fn place(&self, instrument: Instrument, key: &str) -> Option<&str> {
        let own = self.places.get(&format!("{instrument}.{key}"));
        own.or_else(|| self.places.get(key)).map(String::as_str)
    }

    /// Returns all keys that are set, for one instrument or for all.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.common.keys().chain(self.own.values().flat_map(|own| own.keys()))
    }
}

/// Number of runs per cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Repeat {
    /// Minimum number of runs.
    pub min: u32,
    /// Maximum number of runs, even if intervals are still wide.
    pub max: u32,
    /// Target for half of each interval, in percent of its mean, until which a cell is repeated. `None`: only undecided
    /// claims cause repetitions.
    pub until_interval_percent: Option<f64>,
}

impl Default for Repeat {
    fn default() -> Repeat {
        Repeat { min: DEFAULT_MIN_REPETITIONS, max: DEFAULT_MAX_REPETITIONS, until_interval_percent: None }
    }
}

impl Repeat {
    /// Reads the keys in the table over those of `self`.
    pub(crate) fn with(self, table: &Table) -> Result<Repeat, Fault> {
        table.known(&["min", "max", "until_interval_percent"])?;
        let whole = |key: &str, default: u32| match table.get(key) {
            Some(node) => node.whole(1, MAX_REPETITIONS),
            None => Ok(default),
        };
        let percent = table.number("until_interval_percent")?;
        if let Some(node) = table.get("until_interval_percent").filter(|_| percent.is_some_and(|it| it <= 0.0)) {
            return Err(node.fault("cannot be reached", "set a percentage above 0, or leave it out"));
        }
        let min = whole("min", self.min)?;
        let max = whole("max", if table.get("min").is_some() { self.max.max(min) } else { self.max })?;
        if max < min {
            return Err(table.fault(format!("max {max} is below min {min}"), "raise max, or lower min"));
        }
        Ok(Repeat { min, max, until_interval_percent: percent.or(self.until_interval_percent) })
    }
}

/// Changes made by a profile.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Overrides {
    pub base: Base,
    /// Axes with the profile's values.
    pub axes: Vec<Axis>,
    pub repeat: Option<Repeat>,
    pub instruments: Option<Vec<Instrument>>,
}
