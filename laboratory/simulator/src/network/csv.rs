//! Matrices of measured round trips as CSV, in the two forms in which they are published.
//!
//! A *matrix* has a region in each column and row, and round trips in milliseconds, as tables of AWS regions have. Rows
//! of *pings* have the columns `source`, `destination` and `avg`, as the data sets of WonderProxy have; several rows of
//! a pair are averaged. Each delay is half a round trip. A pair without a value gets that of the other direction, and a
//! region without a value of its own 0.5 ms, which is our assumption.

use super::delay::Delay;
use super::faults::MAX_MS;
use super::spec::NetworkSpec;
use quorate_types::Fault;
use std::collections::BTreeMap;

/// One-way delay within a region that the file does not give, in milliseconds.
const WITHIN_REGION_MS: f64 = 0.5;
/// Maximum number of regions of a file.
const MAX_REGIONS: usize = 512;
/// File name ending by which `--network` recognizes such a file.
const ENDING: &str = ".csv";
const UNITS: &str = "write milliseconds such as 72.5, or leave the field empty";

impl NetworkSpec {
    /// Reads a network by its file name: a matrix of round trips if it ends with `.csv`, and otherwise a network file.
    ///
    /// # Errors
    /// The line and the invalid key or column, with a remedy.
    pub fn of_file(text: &str, name: &str) -> Result<NetworkSpec, Fault> {
        match name.ends_with(ENDING) {
            true => NetworkSpec::parse_csv(text, name),
            false => NetworkSpec::parse(text, name),
        }
    }

    /// Parses measured round trips: a matrix with a region in each row and column, or rows with the columns `source`,
    /// `destination` and `avg`. Delays are half of them; everything else has its default.
    ///
    /// # Errors
    /// The line and the column, with a remedy.
    pub fn parse_csv(text: &str, name: &str) -> Result<NetworkSpec, Fault> {
        let spec = parse(text, name)?;
        spec.validate(name)?;
        Ok(spec)
    }

    /// Returns the round trips between the regions as a matrix for [`parse_csv`](NetworkSpec::parse_csv).
    ///
    /// # Errors
    /// If the delays do not depend on regions.
    pub fn to_csv(&self, name: &str) -> Result<String, Fault> {
        format(self, name)
    }
}

/// Round trips in milliseconds between numbered regions.
#[derive(Default)]
struct Matrix {
    regions: Vec<String>,
    /// Sum and number of the values of each pair.
    values: BTreeMap<(usize, usize), (f64, u32)>,
}

impl Matrix {
    fn index(&mut self, name: &str) -> usize {
        self.regions.iter().position(|region| region == name).unwrap_or_else(|| {
            self.regions.push(name.to_owned());
            self.regions.len() - 1
        })
    }

    fn add(&mut self, pair: (usize, usize), round_trip_ms: f64) {
        let entry = self.values.entry(pair).or_default();
        *entry = (entry.0 + round_trip_ms, entry.1 + 1);
    }

    fn one_way_ms(&self, (from, to): (usize, usize)) -> Option<f64> {
        let mean = |pair| self.values.get(&pair).map(|(sum, count)| sum / f64::from(*count) / 2.0);
        let own = mean((from, to)).or_else(|| mean((to, from)));
        own.or((from == to).then_some(WITHIN_REGION_MS))
    }
}

/// Parses a file. `name` identifies it in errors.
///
/// # Errors
/// The line and the column, with a remedy.
fn parse(text: &str, name: &str) -> Result<NetworkSpec, Fault> {
    let mut reader = csv::ReaderBuilder::new();
    reader.has_headers(false).flexible(true).trim(csv::Trim::All);
    let mut rows = Vec::new();
    for record in reader.from_reader(text.trim_start_matches('\u{feff}').as_bytes()).records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(1, csv::Position::line);
            Fault::new(place(name, line), error.to_string(), "write UTF-8 fields with commas between them")
        })?;
        let line = record.position().map_or(1, csv::Position::line);
        let fields: Vec<String> = record.iter().map(str::to_owned).collect();
        if fields.iter().any(|field| !field.is_empty()) {
            rows.push((line, fields));
        }
    }
    let Some(((_, head), rows)) = rows.split_first() else {
        return Err(Fault::new(name, "is empty", "write a line of region names, or source,destination,avg"));
    };
    let column = |wanted: &str| head.iter().position(|field| field.eq_ignore_ascii_case(wanted));
    let matrix = match (column("source"), column("destination"), column("avg")) {
        (Some(source), Some(destination), Some(avg)) => pings(name, rows, [source, destination, avg])?,
        _ => square(name, head, rows)?,
    };
    let regions = matrix.regions.len();
    if regions == 0 || regions > MAX_REGIONS {
        let what = format!("has {regions} regions, not 1 to {MAX_REGIONS}");
        return Err(Fault::new(name, what, "keep the rows and columns that the cluster needs"));
    }
    let row =
        |from: usize| (0..regions).map(|to| delay(&matrix, name, (from, to))).collect::<Result<Vec<f64>, Fault>>();
    let one_way_ms = (0..regions).map(row).collect::<Result<_, Fault>>()?;
    let delay = Delay::Matrix { regions: matrix.regions, one_way_ms, placement: Vec::new(), clients: None };
    Ok(NetworkSpec { delay, ..NetworkSpec::default() })
}

fn place(name: &str, line: u64) -> String {
    format!("{name}, line {line}")
}

fn delay(matrix: &Matrix, name: &str, pair: (usize, usize)) -> Result<f64, Fault> {
    matrix.one_way_ms(pair).ok_or_else(|| {
        let (from, to) = (&matrix.regions[pair.0], &matrix.regions[pair.1]);
        let what = format!("has no round trip between `{from}` and `{to}`, in either direction");
        Fault::new(name, what, "add it, or remove all rows and columns of one of the two")
    })
}

/// Parses a field of milliseconds; `None` if it is empty.
fn milliseconds(field: &str, place: impl Fn() -> String) -> Result<Option<f64>, Fault> {
    let number = field.trim_end_matches("ms").trim_end();
    if number.is_empty() || number == "-" {
        return Ok(None);
    }
    let value: Option<f64> = number.parse().ok().filter(|value: &f64| (0.0..=MAX_MS).contains(value));
    value.map(Some).ok_or_else(|| Fault::new(place(), format!("`{field}` is no round trip"), UNITS))
}

fn square(name: &str, head: &[String], rows: &[(u64, Vec<String>)]) -> Result<Matrix, Fault> {
    let mut matrix = Matrix::default();
    for (at, region) in head.iter().enumerate().skip(1) {
        if region.is_empty() || matrix.regions.contains(region) {
            let what = format!("column {} has the name `{region}`", at + 1);
            return Err(Fault::new(place(name, 1), what, "name each region once, from the second column on"));
        }
        matrix.regions.push(region.clone());
    }
    let count = matrix.regions.len();
    let mut seen = Vec::new();
    for (line, fields) in rows {
        let region = &fields[0];
        let Some(from) = matrix.regions.iter().position(|known| known == region) else {
            let what = format!("the row of `{region}` has no column");
            return Err(Fault::new(
                place(name, *line),
                what,
                "name the same regions in the first line and first column",
            ));
        };
        if seen.contains(&from) {
            return Err(Fault::new(place(name, *line), format!("`{region}` has a second row"), "remove one of them"));
        }
        seen.push(from);
        if fields.len() > count + 1 {
            let what = format!("has {} fields for {count} regions", fields.len());
            return Err(Fault::new(place(name, *line), what, "write the name and one field for each region"));
        }
        for (to, field) in fields.iter().skip(1).enumerate() {
            let at = || format!("{}, column {}", place(name, *line), to + 2);
            if let Some(round_trip_ms) = milliseconds(field, at)? {
                matrix.add((from, to), round_trip_ms);
            }
        }
    }
    Ok(matrix)
}

fn pings(name: &str, rows: &[(u64, Vec<String>)], columns: [usize; 3]) -> Result<Matrix, Fault> {
    let mut matrix = Matrix::default();
    for (line, fields) in rows {
        let [source, destination, avg] = columns.map(|column| fields.get(column).map_or("", String::as_str));
        if source.is_empty() || destination.is_empty() {
            let help = "write an identifier in the columns `source` and `destination`";
            return Err(Fault::new(place(name, *line), "names no two regions", help));
        }
        let pair = (matrix.index(source), matrix.index(destination));
        if matrix.regions.len() > MAX_REGIONS {
            let help = "keep the rows between the regions that the cluster needs";
            return Err(Fault::new(place(name, *line), format!("names more than {MAX_REGIONS} regions"), help));
        }
        let at = || format!("{}, column `avg`", place(name, *line));
        if let Some(round_trip_ms) = milliseconds(avg, at)? {
            matrix.add(pair, round_trip_ms);
        }
    }
    Ok(matrix)
}

/// Formats the round trips of a network as a matrix.
///
/// # Errors
/// If its delays do not depend on regions.
fn format(network: &NetworkSpec, name: &str) -> Result<String, Fault> {
    let Delay::Matrix { regions, one_way_ms, .. } = &network.delay else {
        let help = "name a network with `kind = \"matrix\"`, such as wan4";
        return Err(Fault::new(format!("{name}: `delay.kind`"), "has no regions", help));
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let head = std::iter::once("region").chain(regions.iter().map(String::as_str));
    writer.write_record(head).expect("writing to memory succeeds");
    for (from, region) in regions.iter().enumerate() {
        let round_trips = (0..regions.len()).map(|to| (one_way_ms[from][to] + one_way_ms[to][from] + 0.0).to_string());
        let record = std::iter::once(region.clone()).chain(round_trips);
        writer.write_record(record).expect("writing to memory succeeds");
    }
    let bytes = writer.into_inner().expect("writing to memory succeeds");
    Ok(String::from_utf8(bytes).expect("names and numbers are UTF-8"))
}
