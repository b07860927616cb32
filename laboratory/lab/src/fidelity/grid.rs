//! Grid of specifications, read from a file.

use crate::experiments::Profile;
use crate::spec::{BenchSpec, SpecError};
use quorate_types::Fault;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The grid of the repository.
pub const GRID: &str = include_str!("grid.toml");

/// Specifications that are both run and simulated, in two extents.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Keys of all specifications.
    #[serde(default)]
    base: Table,
    quick: Part,
    full: Part,
}

/// Specifications of a profile.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    #[serde(default)]
    base: Table,
    /// Axes. Each combination of their values is run with each cell.
    #[serde(default)]
    axes: BTreeMap<String, Vec<Value>>,
    cells: Vec<Table>,
}

/// One specification of the grid.
#[derive(Clone, Debug)]
pub struct Entry {
    pub spec: BenchSpec,
    /// Keys in which the cells of the profile differ.
    pub keys: Table,
}

impl Entry {
    /// Returns the keys on one line.
    pub fn label(&self) -> String {
        let one = |(key, value): (&String, &Value)| match value {
            Value::String(text) => format!("{key}={text}"),
            other => format!("{key}={other}"),
        };
        self.keys.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

impl Grid {
    /// Parses a grid. `name` identifies it in errors.
    ///
    /// # Errors
    /// If it is not TOML, or has unknown tables.
    pub fn parse(text: &str, name: &str) -> Result<Grid, Fault> {
        toml::from_str(text).map_err(|error| {
            Fault::new(name, error.to_string().trim_end(), "compare it with the grid of the repository")
        })
    }

    /// Returns the specifications of a profile.
    ///
    /// # Errors
    /// If a cell is not a valid specification.
    pub fn entries(&self, profile: Profile) -> Result<Vec<Entry>, SpecError> {
        let part = match profile {
            Profile::Quick => &self.quick,
            Profile::Full => &self.full,
        };
        let mut tables = vec![over(&self.base, &part.base)];
        for (key, values) in &part.axes {
            let with = |table: &Table, value: &Value| {
                let mut table = table.clone();
                table.insert(key.clone(), value.clone());
                table
            };
            tables = tables.iter().flat_map(|table| values.iter().map(move |value| with(table, value))).collect();
        }
        let tables: Vec<Table> =
            tables.iter().flat_map(|table| part.cells.iter().map(move |cell| over(table, cell))).collect();
        let varies = |key: &str| tables.iter().any(|table| table.get(key) != tables[0].get(key));
        let entry = |table: &Table| {
            let name = format!("the grid's cell {table}");
            let spec = BenchSpec::of_cell(&table.to_string(), &name)?;
            spec.validate()?;
            spec.validate_real()?;
            let keys = table.iter().filter(|(key, _)| varies(key));
            Ok(Entry { spec, keys: keys.map(|(key, value)| (key.clone(), value.clone())).collect() })
        };
        tables.iter().map(entry).collect()
    }
}

/// Merges `own` over `base`.
fn over(base: &Table, own: &Table) -> Table {
    let mut table = base.clone();
    table.extend(own.clone());
    table
}
