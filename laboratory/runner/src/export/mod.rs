//! Rows as tables: one line per row, per second of a row, or per sampled request of a row.

mod parquet;
mod text;

use quorate_lab::experiments::row::Sample;
use quorate_lab::experiments::{Row, Value as Coordinate};
use quorate_lab::figures::vocabulary;
use quorate_types::choice;
use std::collections::BTreeSet;

use crate::error::RunnerError;

/// Prefix of coordinate columns, which keeps their names apart from other columns.
pub const AXIS_PREFIX: &str = "axis_";

choice!(
    /// Format of an exported table.
    #[derive(Default)]
    Format, "format",
    /// Comma-separated, with a header line (RFC 4180).
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
    /// One line per run.
    #[default]
    Runs = "runs",
    /// One line per whole second of each run.
    Seconds = "seconds",
    /// One line per sampled request of each run.
    Samples = "samples",
);

/// Column present in every table of a kind; `T` is the subject of a line.
pub struct Fixed<T: 'static> {
    pub name: &'static str,
    pub unit: &'static str,
    pub about: &'static str,
    value: Value<T>,
}

/// Function that extracts a column's value.
enum Value<T> {
    /// Empty texts are missing values.
    Text(fn(&T) -> String),
    Number(fn(&T) -> Option<f64>),
    Whole(fn(&T) -> Option<i64>),
    Flag(fn(&T) -> Option<bool>),
}

/// Declares columns: name, unit, meaning, and the type and value of a line.
macro_rules! columns {
    ($($name:literal, $unit:literal, $about:literal => $kind:ident($of:expr);)*) => {
        &[$(Fixed { name: $name, unit: $unit, about: $about, value: Value::$kind($of) }),*]
    };
}

/// Columns that identify the run, followed by the axes' columns.
pub const IDENTITY: &[Fixed<Row>] = columns! {
    "experiment", "", "Paper and id of the experiment" => Text(|row| row.experiment.clone());
    "profile", "", "`quick` or `full`" => Text(|row| row.profile.to_string());
    "instrument", "", "`real`, `emulated`, `simulated`, `scenarios` or `analytical`" =>
        Text(|row| row.instrument.to_string());
    "repetition", "", "Number of the repetition, from 0" => Whole(|row| Some(row.repetition.into()));
};

/// Columns after the figures.
pub const ORIGIN: &[Fixed<Row>] = columns! {
    "steal_percent", "%", "CPU time taken by the hypervisor, as a share of all cores' time" =>
        Number(|row| Some(row.noise?.steal_percent));
    "others_percent", "%", "CPU time of other programs, as a share of all cores' time" =>
        Number(|row| Some(row.noise?.others_percent));
    "pressure_percent", "%", "Time in which any thread waited for a core, including the run's own" =>
        Number(|row| row.noise?.pressure_percent);
    "variation_percent", "%", "Coefficient of variation of the throughput per second" =>
        Number(|row| row.noise?.variation_percent);
    "is_steady", "", "Whether the variation is at most 15 %; empty for a run of less than 3 s" =>
        Flag(|row| row.noise?.is_steady());
    "failure", "", "Why the run failed; its figures are then empty" =>
        Text(|row| row.failure.clone().unwrap_or_default());
    "not_measurable", "", "Why this machine or build cannot run the cell; its figures are then empty" =>
        Text(|row| row.not_measurable.clone().unwrap_or_default());
    "warnings", "", "Caveats for the figures, joined with `; `" => Text(|row| row.warnings.join("; "));
    "build", "", "Version, commit, profile and digest of the program" =>
        Text(|row| row.provenance.surroundings.build.clone());
    "machine", "", "Processor, cores and memory; `virtual time` for simulated runs" =>
        Text(|row| row.provenance.surroundings.machine.clone());
    "kernel", "", "Operating system and kernel release" => Text(|row| row.provenance.kernel.clone());
    "host", "", "Host of `lab run --on ssh` that ran it; otherwise empty" =>
        Text(|row| row.provenance.host.clone().unwrap_or_default());
    "costs", "", "Source and digest of the simulator's cost table" =>
        Text(|row| row.provenance.surroundings.costs.clone());
    "inputs", "", "Digest of the files that the specification names" =>
        Text(|row| row.provenance.surroundings.inputs.clone());
    "seed", "", "Seed of the run" => Whole(|row| i64::try_from(row.provenance.seed).ok());
    "command", "", "The command that repeats the run" => Text(|row| row.provenance.command.clone());
};

/// Columns of a sampled request, after the columns that identify the run.
pub const SAMPLE: &[Fixed<Sample>] = columns! {
    "at_s", "s", "Intended send time, from the start of the measured time" => Number(|own| Some(own.at_s));
    "latency_ms", "ms", "Latency of the request; its age at the end of the run if it has no answer" =>
        Number(|own| Some(own.latency_ms));
};

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
    /// Returns the table of rows. Figures that no row has get no column.
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
        for figure in vocabulary().figures.iter().filter(|figure| used.contains(figure.name)) {
            table.add(figure.name, Column::Number(each(rows, |row| row.figures.get(figure.name).copied())));
        }
        table.add_fixed(ORIGIN, rows);
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
        for series in vocabulary().series {
            let value = |(row, second): &(&Row, usize)| row.series.get(series.name)?.get(*second).copied();
            let values: Vec<Option<f64>> = seconds.iter().map(value).collect();
            if values.iter().any(Option::is_some) {
                table.add(series.name, Column::Number(values));
            }
        }
        table
    }

    fn of_samples(rows: &[&Row]) -> Table {
        let all: Vec<(&Row, &Sample)> =
            rows.iter().flat_map(|row| row.samples.iter().map(|sample| (*row, sample))).collect();
        let (runs, samples): (Vec<&Row>, Vec<&Sample>) = all.into_iter().unzip();
        let mut table = Table::default();
        table.add_identity(&runs, rows);
        table.add_fixed(SAMPLE, &samples);
        table
    }

    fn add(&mut self, name: impl Into<String>, column: Column) {
        self.columns.push((name.into(), column));
    }

    /// Adds the columns that identify the run of each line. The axes are taken from `all` rows of the table, so that
    /// they do not depend on which rows have lines.
    fn add_identity(&mut self, rows: &[&Row], all: &[&Row]) {
        self.add_fixed(IDENTITY, rows);
        let axes: BTreeSet<&String> = all.iter().flat_map(|row| row.cell.keys()).collect();
        for axis in axes {
            self.add(format!("{AXIS_PREFIX}{axis}"), axis_column(rows, all, axis));
        }
    }

    fn add_fixed<T>(&mut self, columns: &[Fixed<T>], lines: &[&T]) {
        for Fixed { name, value, .. } in columns {
            let present = |text: &String| !text.is_empty();
            self.add(
                *name,
                match value {
                    Value::Text(of) => Column::Text(each(lines, |line| Some(of(line)).filter(present))),
                    Value::Number(of) => Column::Number(each(lines, of)),
                    Value::Whole(of) => Column::Whole(each(lines, of)),
                    Value::Flag(of) => Column::Flag(each(lines, of)),
                },
            );
        }
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Encodes the table in a format.
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

fn each<L, T>(lines: &[&L], of: impl Fn(&L) -> Option<T>) -> Vec<Option<T>> {
    lines.iter().map(|line| of(line)).collect()
}

/// Returns the coordinates on an axis: as numbers if all values are numbers, and otherwise as text.
fn axis_column(rows: &[&Row], all: &[&Row], axis: &str) -> Column {
    let values: Vec<Option<&Coordinate>> = rows.iter().map(|row| row.cell.get(axis)).collect();
    let is_numeric = all.iter().filter_map(|row| row.cell.get(axis)).all(|value| value.as_number().is_some());
    if is_numeric {
        return Column::Number(values.into_iter().map(|value| value?.as_number()).collect());
    }
    Column::Text(values.into_iter().map(|value| value.map(ToString::to_string)).collect())
}
