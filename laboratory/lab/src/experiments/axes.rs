//! Expands axes into cells, in the order of their runs.

pub use crate::experiments::file::Coordinate;
/// A value of a specification.
pub use toml::Value as SpecificationValue;

use crate::experiments::file::{Axis, Base, Entry, Exclusion, Experiment, Repeat};
use crate::experiments::names::{Instrument, Outliers, Profile};
use crate::experiments::row::Surroundings;
use crate::experiments::value::Value;
use quorate_types::digest::{Digest, Hasher};
use quorate_types::{Fault, tags, text};
use std::collections::BTreeMap;

/// Maximum number of cells of a plan, over all instruments.
pub const MAX_CELLS: usize = 10_000;
/// Name under which exclusions and plots select instruments.
pub(crate) const INSTRUMENT: &str = "instrument";
/// Tag of the hash that is a cell's key.
const CELL_TAG: [u8; 4] = tags::CELL;

/// The cells of a profile.
#[derive(Clone, Debug)]
pub struct Plan<'e> {
    pub experiment: &'e Experiment,
    pub profile: Profile,
    /// Instruments of the plan; never empty.
    pub instruments: Vec<Instrument>,
    pub repeat: Repeat,
    /// Axes with the profile's values.
    pub axes: Vec<Axis>,
    /// Cells, grouped by instrument. The axes of the plots' series vary fastest, so that compared cells run one after
    /// the other.
    pub cells: Vec<Cell>,
}

/// One specification, with several runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    pub instrument: Instrument,
    /// Coordinates in the order of the axes.
    pub coordinates: Vec<Coordinate>,
    /// Keys of `quorate bench --spec`, and of the instrument. Each repetition needs its own seed: identical runs would
    /// have intervals of zero width, and would decide every claim.
    pub specification: toml::Table,
    pub outliers: Outliers,
}

impl Experiment {
    /// Expands a profile, for the given instruments or the file's.
    ///
    /// # Errors
    /// If there are too many cells or none, or an axis multiplies a key that is not set.
    pub fn plan(&self, profile: Profile, instruments: Option<&[Instrument]>) -> Result<Plan<'_>, Fault> {
        let overrides = self.profiles.get(&profile);
        let own = overrides.and_then(|overrides| overrides.instruments.as_deref());
        let instruments = instruments.or(own).unwrap_or(&self.instruments).to_vec();
        if let Some(other) = instruments.iter().find(|own| !self.instruments.contains(own)) {
            let known = self.instruments.iter().map(Instrument::to_string).collect::<Vec<_>>().join(", ");
            return Err(Fault::new(
                self.file.as_str(),
                format!("does not run on the instrument `{other}`"),
                format!("use {known}"),
            ));
        }
        let changed = overrides.map_or(&[][..], |overrides| &overrides.axes);
        let axes: Vec<Axis> = self
            .axes
            .iter()
            .map(|axis| changed.iter().find(|own| own.name == axis.name).unwrap_or(axis).clone())
            .collect();
        let mut plan = Plan {
            experiment: self,
            profile,
            repeat: overrides.and_then(|overrides| overrides.repeat).unwrap_or(self.repeat),
            instruments: instruments.clone(),
            axes,
            cells: Vec::new(),
        };
        let points = plan.points()?;
        let runs = instruments.iter().flat_map(|instrument| points.iter().map(move |point| (*instrument, point)));
        let cells = runs.filter_map(|(instrument, point)| plan.cell(instrument, point).transpose());
        let cells: Vec<Cell> = cells.collect::<Result<_, _>>()?;
        plan.cells = cells;
        if plan.cells.is_empty() {
            let what = format!("the profile {profile} has no cells: all are excluded");
            return Err(Fault::new(self.file.as_str(), what, "remove an exclusion"));
        }
        Ok(plan)
    }
}

impl Plan<'_> {
    /// Returns all combinations of the axes' values; the axes of series vary fastest.
    fn points(&self) -> Result<Vec<Vec<&Entry>>, Fault> {
        let counts = self.axes.iter().map(|axis| axis.entries.len()).chain([self.instruments.len()]);
        let count = counts.fold(1, usize::saturating_mul);
        if count > MAX_CELLS {
            let axes: Vec<String> =
                self.axes.iter().map(|axis| format!("{} has {} values", axis.name, axis.entries.len())).collect();
            let count = text::count(count as u64);
            let what =
                format!("the profile {} has {count} cells, more than {MAX_CELLS}: {}", self.profile, axes.join(", "));
            return Err(Fault::new(self.experiment.file.as_str(), what, "take fewer values, or split the experiment"));
        }
        let series: Vec<&String> = self.experiment.plots.iter().flat_map(|plot| &plot.series).collect();
        let is_series = |axis: &Axis| axis.coordinates().iter().any(|name| series.iter().any(|own| own == name));
        let mut order: Vec<usize> = (0..self.axes.len()).collect();
        order.sort_by_key(|at| is_series(&self.axes[*at]));
        let mut points: Vec<Vec<(usize, &Entry)>> = vec![Vec::new()];
        for at in order {
            let entries = &self.axes[at].entries;
            let longer = |point: Vec<(usize, _)>| {
                entries.iter().map(move |entry| point.iter().copied().chain([(at, entry)]).collect::<Vec<_>>())
            };
            points = points.into_iter().flat_map(longer).collect();
        }
        for point in &mut points {
            point.sort_by_key(|(at, _)| *at);
        }
        Ok(points.into_iter().map(|point| point.into_iter().map(|(_, entry)| entry).collect()).collect())
    }

    /// Returns whether an axis sets a key.
    pub fn varies(&self, key: &str) -> bool {
        self.axes.iter().any(|axis| axis.keys.iter().any(|own| own == key))
    }

    /// Returns the cell of a point, unless it is excluded.
    fn cell(&self, instrument: Instrument, point: &[&Entry]) -> Result<Option<Cell>, Fault> {
        let coordinates: Vec<Coordinate> = point.iter().flat_map(|entry| entry.coordinates.clone()).collect();
        let mut cell =
            Cell { instrument, coordinates, specification: self.base(instrument), outliers: self.experiment.outliers };
        if self.experiment.exclusions.iter().any(|exclusion| exclusion.matches(&cell)) {
            return Ok(None);
        }
        let (multiples, plain): (Vec<_>, Vec<_>) =
            self.axes.iter().zip(point).partition(|(axis, _)| axis.times.is_some());
        for (key, value) in plain.iter().flat_map(|(_, entry)| &entry.settings) {
            cell.specification.insert(key.clone(), value.to_toml());
        }
        let own = point.iter().flat_map(|entry| &entry.own).filter(|(of, ..)| *of == instrument);
        for (_, key, value) in own {
            cell.specification.insert(key.clone(), value.to_toml());
        }
        for (axis, entry) in multiples {
            let times = axis.times.as_deref().unwrap_or_default();
            for (key, factor) in &entry.settings {
                let value = multiple(factor, cell.specification.get(times)).ok_or_else(|| {
                    let what = format!("multiplies by `{times}`, which has no number");
                    Fault::new(axis.place.as_str(), what, format!("set `{times}` in [base] or by an axis"))
                })?;
                cell.specification.insert(key.clone(), value);
            }
        }
        Ok(Some(cell))
    }

    /// Merges the base tables: the file's, the profile's, and the instrument's.
    fn base(&self, instrument: Instrument) -> toml::Table {
        let none = Base::default();
        let overrides = self.experiment.profiles.get(&self.profile).map_or(&none, |overrides| &overrides.base);
        let bases = [&self.experiment.base, overrides];
        let common = bases.iter().flat_map(|base| &base.common);
        let own = bases.iter().filter_map(|base| base.own.get(&instrument)).flatten();
        common.chain(own).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Returns the minimum runs of the file as pairs of repetition and cell index, repetition by repetition: a
    /// temporary slowdown of the machine then affects all series alike. Every other repetition goes backwards, so that
    /// a steady drift affects the first and the last cell alike on average.
    pub fn turns(&self) -> Vec<(u32, usize)> {
        let mut turns: Vec<(u32, usize)> = (0..self.repeat.min)
            .flat_map(|repetition| (0..self.cells.len()).map(move |cell| (repetition, cell)))
            .filter(|(repetition, cell)| *repetition < self.least_runs(*cell))
            .collect();
        turns.sort_by_key(|(repetition, cell)| Self::turn(*repetition, *cell));
        turns
    }

    /// Returns the minimum number of runs of a cell; 1 for formulas, whose runs are all equal.
    pub fn least_runs(&self, cell: usize) -> u32 {
        match self.cells[cell].instrument {
            Instrument::Analytical => 1,
            _ => self.repeat.min,
        }
    }

    /// Returns the sort key of a run.
    pub(crate) fn turn(repetition: u32, cell: usize) -> (u32, i64) {
        let cell = cell as i64;
        (repetition, if repetition.is_multiple_of(2) { cell } else { -cell })
    }

    /// Returns the index of the cell with these coordinates.
    pub fn find(&self, instrument: Instrument, coordinates: &BTreeMap<String, Value>) -> Option<usize> {
        self.cells.iter().position(|cell| cell.instrument == instrument && cell.values() == *coordinates)
    }
}

impl Exclusion {
    /// Returns whether this exclusion applies to the cell.
    pub fn matches(&self, cell: &Cell) -> bool {
        let is_met = |(key, values): &(String, Vec<Value>)| cell.is_one_of(key, values);
        self.conditions.iter().all(is_met) && (self.unless.is_empty() || !self.unless.iter().all(is_met))
    }
}

impl Cell {
    /// Returns the coordinates in the form in which rows have them.
    pub fn values(&self) -> BTreeMap<String, Value> {
        self.coordinates.iter().map(|own| (own.name.clone(), own.value.clone())).collect()
    }

    /// Returns the value on an axis.
    pub fn get(&self, axis: &str) -> Option<&Value> {
        self.coordinates.iter().find(|own| own.name == axis).map(|own| &own.value)
    }

    /// Returns whether the value on the axis, or the instrument, is one of `values`.
    pub(crate) fn is_one_of(&self, axis: &str, values: &[Value]) -> bool {
        match axis {
            INSTRUMENT => values.iter().any(|value| value.as_text() == Some(self.instrument.name())),
            axis => self.get(axis).is_some_and(|own| values.contains(own)),
        }
    }

    /// Returns the coordinates in words: `batch 400, leader fixed`.
    pub fn label(&self) -> String {
        let words = self.coordinates.iter().map(|own| format!("{} {}", own.name, own.shown()));
        let words: Vec<String> = words.collect();
        if words.is_empty() { "the only cell".to_owned() } else { words.join(", ") }
    }

    /// Returns the cell as the subject of a message: `the cell batch 400, leader fixed`.
    pub fn title(&self) -> String {
        if self.coordinates.is_empty() { self.label() } else { format!("the cell {}", self.label()) }
    }

    /// Returns the key under which results of this cell are kept: SHA-256 over the tag `xcel`, the instrument, the
    /// outlier policy, the build, the machine, the cost table, the other inputs, and the keys of the specification in
    /// alphabetical order with their values. Texts are preceded by their length (8 bytes, little-endian), values by
    /// their type, so that different contents have different encodings. It depends neither on the file's name and
    /// layout nor on labels.
    pub fn key(&self, surroundings: &Surroundings) -> Digest {
        let mut hasher = Hasher::new(CELL_TAG);
        let Surroundings { build, machine, costs, inputs } = surroundings;
        for text in [self.instrument.name(), self.outliers.name(), build, machine, costs, inputs] {
            hash_text(&mut hasher, text);
        }
        hash_value(&mut hasher, &toml::Value::Table(self.specification.clone()));
        hasher.finish()
    }
}

fn multiple(factor: &Value, times: Option<&toml::Value>) -> Option<toml::Value> {
    match (factor, times?) {
        (Value::Integer(factor), toml::Value::Integer(times)) => factor.checked_mul(*times).map(toml::Value::Integer),
        (factor, toml::Value::Integer(times)) => {
            let product = factor.as_number()? * *times as f64;
            let is_whole = product.fract() == 0.0 && product.abs() < i64::MAX as f64;
            Some(if is_whole { toml::Value::Integer(product as i64) } else { toml::Value::Float(product) })
        }
        (factor, toml::Value::Float(times)) => Some(toml::Value::Float(factor.as_number()? * times)),
        _ => None,
    }
}

fn hash_text(hasher: &mut Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

fn hash_value(hasher: &mut Hasher, value: &toml::Value) {
    match value {
        toml::Value::Boolean(flag) => hasher.update(&[0, u8::from(*flag)]),
        toml::Value::Integer(number) => {
            hasher.update(&[1]);
            hasher.update(&number.to_le_bytes());
        }
        toml::Value::Float(number) => {
            hasher.update(&[2]);
            hasher.update(&number.to_bits().to_le_bytes());
        }
        toml::Value::String(text) => {
            hasher.update(&[3]);
            hash_text(hasher, text);
        }
        toml::Value::Array(values) => {
            hasher.update(&[4]);
            hasher.update(&(values.len() as u64).to_le_bytes());
            values.iter().for_each(|value| hash_value(hasher, value));
        }
        toml::Value::Table(table) => {
            hasher.update(&[5]);
            hasher.update(&(table.len() as u64).to_le_bytes());
            // Sorts, so that the hash does not depend on the library's table order.
            let sorted: BTreeMap<&String, &toml::Value> = table.iter().collect();
            for (key, value) in sorted {
                hash_text(hasher, key);
                hash_value(hasher, value);
            }
        }
        toml::Value::Datetime(time) => {
            hasher.update(&[6]);
            hash_text(hasher, &time.to_string());
        }
    }
}
