//! Rows as tables: one line for each row, or for each second or sampled request of each row.

mod parquet;
mod text;

use quorate_experiments::figures::{FIGURES, SERIES};
use quorate_experiments::{Row, Value};
use quorate_types::choice;
use std::collections::BTreeSet;

use crate::error::RunnerError;

/// Beginning of the names of columns with coordinates, so that they cannot be those of other columns.
pub const AXIS_PREFIX: &str = "axis_";

choice!(
    /// Format of an exported table.
    #[derive(Default)]
    Format, "format",
    /// Comma-separated, with a line of names (RFC 4180).
    #[default]
    Csv = "csv",
    /// A list of objects.
    Json = "json",
    /// Apache Parquet.
    Parquet = "parquet",
);

choice!(
    /// Table to export.
    #[derive(Default)]
    Lines, "kind of lines",
    /// One line for each run.
    #[default]
    Runs = "runs",
    /// One line for each whole second of each run.
    Seconds = "seconds",
    /// One line for each sampled request of each run.
    Samples = "samples",
);

/// Column that every table of runs has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fixed {
    pub name: &'static str,
    pub unit: &'static str,
    pub about: &'static str,
}

const fn fixed(name: &'static str, unit: &'static str, about: &'static str) -> Fixed {
    Fixed { name, unit, about }
}

/// Columns that say which run it was. Those of the axes follow.
pub const IDENTITY: &[Fixed] = &[
    fixed("experiment", "", "paper and id of the experiment"),
    fixed("profile", "", "`quick` or `full`"),
    fixed("instrument", "", "`real`, `emulated`, `simulated`, `scenarios` or `analytical`"),
    fixed("repetition", "", "number of the repetition, from 0"),
];

/// Columns after the figures.
pub const ORIGIN: &[Fixed] = &[
    fixed("steal_percent", "%", "time that the hypervisor took from this machine, of all cores' time"),
    fixed("others_percent", "%", "processor time of other programs, of all cores' time"),
    fixed("pressure_percent", "%", "time in which some thread waited for a core, those of the run included"),
    fixed("variation_percent", "%", "coefficient of variation of the throughput per second"),
    fixed("is_steady", "", "whether the variation is at most 15 %; empty for a run of less than 3 s"),
    fixed("failure", "", "why the run failed; its figures are then empty"),
    fixed("not_measurable", "", "why this machine or this build cannot run the cell; there are no figures then"),
    fixed("warnings", "", "caveats for the figures, joined with `; `"),
    fixed("build", "", "version, commit, profile and digest of the program"),
    fixed("machine", "", "processor, cores and memory; `virtual time` for simulated runs"),
    fixed("kernel", "", "operating system and kernel release"),
    fixed("costs", "", "source and digest of the simulator's cost table"),
    fixed("inputs", "", "digest of the files that the specification names"),
    fixed("seed", "", "seed of the run"),
    fixed("command", "", "the command that repeats the run"),
];

/// Columns of a sampled request, after those that say which run it was.
pub const SAMPLE: &[Fixed] = &[
    fixed("at_s", "s", "intended sending of the request, from the start of the measured time"),
    fixed("latency_ms", "ms", "latency of the request; its age at the end of the run if it has no answer"),
];

/// A table by columns. All columns have the same length.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    pub columns: Vec<(String, Column)>,
}

/// Values of one type; `None` where a row has no value.
#[derive(Clone, PartialEq, Debug)]
pub enum Column {
    Text(Vec<Option<String>>),
    Number(Vec<Option<f64>>),
    Whole(Vec<Option<i64>>),
    Flag(Vec<Option<bool>>),
}

impl Column {
    pub fn len(&self) -> usize {
        match self {
            Column::Text(values) => values.len(),
            Column::Number(values) => values.len(),
            Column::Whole(values) => values.len(),
            Column::Flag(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    /// Returns the table of rows. A figure that no row has gives no column.
    pub fn of(rows: &[&Row], lines: Lines) -> Table {
        match lines {
            Lines::Runs => Table::of_runs(rows),
            Lines::Seconds => Table::of_seconds(rows),
            Lines::Samples => Table::of_samples(rows),
        }
    }

    fn of_runs(rows: &[&Row]) -> Table {
        let mut table = Table::default();
        table.add_identity(rows, rows);
        let used: BTreeSet<&str> = rows.iter().flat_map(|row| row.figures.keys().map(String::as_str)).collect();
        for figure in FIGURES.iter().filter(|figure| used.contains(figure.name)) {
            table.add(figure.name, Column::Number(each(rows, |row| row.figures.get(figure.name).copied())));
        }
        table.add_origin(rows);
        table
    }

    fn of_seconds(rows: &[&Row]) -> Table {
        let mut seconds: Vec<(&Row, usize)> = Vec::new();
        for row in rows {
            let count = row.series.values().map(Vec::len).max().unwrap_or(0);
            seconds.extend((0..count).map(|second| (*row, second)));
        }
        let repeated: Vec<&Row> = seconds.iter().map(|(row, _)| *row).collect();
        let mut table = Table::default();
        table.add_identity(&repeated, rows);
        table.add("second", Column::Whole(seconds.iter().map(|(_, second)| Some(*second as i64)).collect()));
        for series in SERIES {
            let value = |(row, second): &(&Row, usize)| row.series.get(series.name)?.get(*second).copied();
            let values: Vec<Option<f64>> = seconds.iter().map(value).collect();
            if values.iter().any(Option::is_some) {
                table.add(series.name, Column::Number(values));
            }
        }
        table
    }

    fn of_samples(rows: &[&Row]) -> Table {
        let all = || rows.iter().flat_map(|row| row.samples.iter().map(move |sample| (*row, sample)));
        let mut table = Table::default();
        table.add_identity(&all().map(|(row, _)| row).collect::<Vec<_>>(), rows);
        let columns = [
            Column::Number(all().map(|(_, sample)| Some(sample.at_s)).collect()),
            Column::Number(all().map(|(_, sample)| Some(sample.latency_ms)).collect()),
        ];
        for (fixed, column) in SAMPLE.iter().zip(columns) {
            table.add(fixed.name, column);
        }
        table
    }

    fn add(&mut self, name: impl Into<String>, column: Column) {
        self.columns.push((name.into(), column));
    }

    /// Adds the columns that identify the run of each line. `all` are the rows of the whole table, which decide on the
    /// axes, so that those do not depend on which rows have lines.
    fn add_identity(&mut self, rows: &[&Row], all: &[&Row]) {
        let text = |of: &dyn Fn(&Row) -> String| Column::Text(each(rows, |row| Some(of(row))));
        let columns = [
            text(&|row| row.experiment.clone()),
            text(&|row| row.profile.to_string()),
            text(&|row| row.instrument.to_string()),
            Column::Whole(each(rows, |row| Some(row.repetition.into()))),
        ];
        for (fixed, column) in IDENTITY.iter().zip(columns) {
            self.add(fixed.name, column);
        }
        let axes: BTreeSet<&String> = all.iter().flat_map(|row| row.cell.keys()).collect();
        for axis in axes {
            self.add(format!("{AXIS_PREFIX}{axis}"), axis_column(rows, all, axis));
        }
    }

    fn add_origin(&mut self, rows: &[&Row]) {
        let number = |of: &dyn Fn(&Row) -> Option<f64>| Column::Number(each(rows, of));
        let text =
            |of: &dyn Fn(&Row) -> String| Column::Text(each(rows, |row| Some(of(row)).filter(|text| !text.is_empty())));
        let columns = [
            number(&|row| Some(row.noise?.steal_percent)),
            number(&|row| Some(row.noise?.others_percent)),
            number(&|row| row.noise?.pressure_percent),
            number(&|row| row.noise?.variation_percent),
            Column::Flag(each(rows, |row| row.noise?.is_steady())),
            text(&|row| row.failure.clone().unwrap_or_default()),
            text(&|row| row.not_measurable.clone().unwrap_or_default()),
            text(&|row| row.warnings.join("; ")),
            text(&|row| row.provenance.surroundings.build.clone()),
            text(&|row| row.provenance.surroundings.machine.clone()),
            text(&|row| row.provenance.kernel.clone()),
            text(&|row| row.provenance.surroundings.costs.clone()),
            text(&|row| row.provenance.surroundings.inputs.clone()),
            Column::Whole(each(rows, |row| i64::try_from(row.provenance.seed).ok())),
            text(&|row| row.provenance.command.clone()),
        ];
        for (fixed, column) in ORIGIN.iter().zip(columns) {
            self.add(fixed.name, column);
        }
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the table in a format.
    ///
    /// # Errors
    /// If the library of the format refuses the table.
    pub fn to_bytes(&self, format: Format) -> Result<Vec<u8>, RunnerError> {
        match format {
            Format::Csv => text::csv(self),
            Format::Json => Ok(text::json(self)),
            Format::Parquet => parquet::write(self).map_err(|error| RunnerError::Table(error.to_string())),
        }
    }
}

fn each<T>(rows: &[&Row], of: impl Fn(&Row) -> Option<T>) -> Vec<Option<T>> {
    rows.iter().map(|row| of(row)).collect()
}

/// Returns the coordinates on an axis: as numbers if all of them are, or else as text.
fn axis_column(rows: &[&Row], all: &[&Row], axis: &str) -> Column {
    let values: Vec<Option<&Value>> = rows.iter().map(|row| row.cell.get(axis)).collect();
    let is_numeric = all.iter().filter_map(|row| row.cell.get(axis)).all(|value| value.as_number().is_some());
    if is_numeric {
        return Column::Number(values.into_iter().map(|value| value?.as_number()).collect());
    }
    Column::Text(values.into_iter().map(|value| value.map(ToString::to_string)).collect())
}
