//! Compares the rows of two directories, cell by cell.

use crate::report::Archived;
use comfy_table::{CellAlignment, Table, presets};
use quorate_lab::experiments::statistics::{CONFIDENCE, Ratio, mean, ratio, ratio_of_pairs};
use quorate_lab::experiments::{Instrument, Profile, Row, Value};
use quorate_lab::figures::vocabulary;
use quorate_lab::result::figure;
use quorate_operator::report::Report;
use quorate_types::Fault;
use quorate_types::choice::nearest;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Figures that are compared by default.
pub const MAIN_FIGURES: &[&str] = &["throughput_per_s", "p50_ms", "p99_ms", "cpu_us_per_command"];

/// Figures that count a program's work per command. They hardly depend on other work of the machine.
pub const WORK_FIGURES: &[&str] = &["cpu_us_per_command", "instructions_per_command"];

/// A figure of a cell in two directories.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    pub experiment: String,
    pub profile: Profile,
    pub instrument: Instrument,
    pub cell: BTreeMap<String, Value>,
    pub figure: String,
    /// Arithmetic means, and the number of runs.
    pub before: f64,
    pub before_runs: usize,
    pub after: f64,
    pub after_runs: usize,
    /// Ratio of after to before; `None` if a value is not positive.
    pub ratio: Option<Ratio>,
    /// Whether the ratio's interval excludes 1; `None` if one side has a single run, or there is no ratio.
    pub is_significant: Option<bool>,
}

/// Two directories, compared.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparisons {
    pub comparisons: Vec<Comparison>,
    /// Number of cells without a successful run in the second directory.
    pub only_before: usize,
    /// Number of cells without a successful run in the first directory.
    pub only_after: usize,
}

/// Identifies a cell of an experiment. Coordinates are compared as text, which is the same for equal values.
type CellKey = (String, Profile, Instrument, Vec<(String, String)>);

/// Checks the names of figures.
///
/// # Errors
/// The first unknown name, with the nearest known one.
pub fn check_figures(figures: &[String]) -> Result<(), Fault> {
    let known = vocabulary().figure_names();
    let Some(other) = figures.iter().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    let help = match nearest(other, &known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("use one of {}", known.join(", ")),
    };
    Err(Fault::new("--figure", format!("`{other}` is no figure"), help))
}

/// Compares the figures of all cells present in both directories.
pub fn compare(before: &[Archived], after: &[Archived], figures: &[String]) -> Comparisons {
    let (before, after) = (by_cell(before), by_cell(after));
    let keys: BTreeSet<&CellKey> = before.keys().chain(after.keys()).collect();
    let mut found = Comparisons { comparisons: Vec::new(), only_before: 0, only_after: 0 };
    for key in keys {
        match (before.get(key), after.get(key)) {
            (Some(before), Some(after)) => {
                let compared = figures.iter().filter_map(|figure| compare_one(figure, before, after));
                found.comparisons.extend(compared);
            }
            (Some(_), None) => found.only_before += 1,
            (None, _) => found.only_after += 1,
        }
    }
    found
}

fn by_cell(archived: &[Archived]) -> BTreeMap<CellKey, Vec<&Row>> {
    let mut cells: BTreeMap<CellKey, Vec<&Row>> = BTreeMap::new();
    for row in
        archived.iter().flat_map(|own| &own.rows).filter(|row| row.failure.is_none() && row.not_measurable.is_none())
    {
        let cell = row.cell.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        cells.entry((row.experiment.clone(), row.profile, row.instrument, cell)).or_default().push(row);
    }
    cells
}

fn compare_one(figure: &str, before: &[&Row], after: &[&Row]) -> Option<Comparison> {
    let values = |rows: &[&Row]| rows.iter().filter_map(|row| row.figures.get(figure).copied()).collect::<Vec<f64>>();
    let (old, new) = (values(before), values(after));
    let (mean_before, mean_after) = (mean(&old)?, mean(&new)?);
    let row = before.first()?;
    let is_whole = old.len() == before.len() && new.len() == after.len();
    let ratio = if is_whole && are_pairs(before, after) { ratio_of_pairs(&old, &new) } else { ratio(&old, &new) };
    Some(Comparison {
        experiment: row.experiment.clone(),
        profile: row.profile,
        instrument: row.instrument,
        cell: row.cell.clone(),
        figure: figure.to_owned(),
        before: mean_before,
        before_runs: old.len(),
        after: mean_after,
        after_runs: new.len(),
        is_significant: ratio.and_then(|ratio| ratio.is_significant()),
        ratio,
    })
}

/// Returns whether the runs are simulations of the same seeds, which differ only in the program.
fn are_pairs(before: &[&Row], after: &[&Row]) -> bool {
    let seeds = |rows: &[&Row]| rows.iter().map(|row| (row.repetition, row.provenance.seed)).collect::<Vec<_>>();
    before.iter().all(|row| row.instrument == Instrument::Simulated) && seeds(before) == seeds(after)
}

impl Comparisons {
    /// Returns the comparisons in which a command takes significantly more work than before, by more than a limit.
    pub fn worse(&self, limit_percent: f64) -> Vec<&Comparison> {
        let is_worse = |own: &&Comparison| {
            let ratio = own.ratio.filter(|_| own.is_significant == Some(true));
            WORK_FIGURES.contains(&own.figure.as_str())
                && ratio.is_some_and(|ratio| (ratio.ratio - 1.0) * 100.0 > limit_percent)
        };
        self.comparisons.iter().filter(is_worse).collect()
    }

    fn summary(&self) -> String {
        let judged = self.comparisons.iter().filter(|own| own.is_significant.is_some()).count();
        let significant = self.comparisons.iter().filter(|own| own.is_significant == Some(true)).count();
        let by_chance = judged as f64 * (1.0 - CONFIDENCE);
        let mut text = format!(
            " {significant} of {judged} differences are significant; without any change, about {by_chance:.1} would be"
        );
        for (count, which) in [(self.only_before, "first"), (self.only_after, "second")] {
            if count > 0 {
                text.push_str(&format!("\n {count} cells have successful runs in the {which} directory only"));
            }
        }
        text
    }
}

impl Report for Comparisons {
    fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["cell", "figure", "before", "after", "ratio", "interval", "difference"]);
        for own in &self.comparisons {
            let interval = own.ratio.and_then(|ratio| ratio.interval);
            table.add_row([
                own.label(),
                own.figure.clone(),
                figure(own.before),
                figure(own.after),
                own.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{:.3}", ratio.ratio)),
                interval.map_or_else(|| "–".to_owned(), |own| format!("{:.3} to {:.3}", own.low, own.high)),
                match own.is_significant {
                    Some(true) => "significant",
                    Some(false) => "none found",
                    None => "unknown: too few runs",
                }
                .to_owned(),
            ]);
        }
        for column in 2..5 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        format!("{}\n{}", lines.concat(), self.summary())
    }
}

impl Comparison {
    /// Returns the cell in words.
    pub fn label(&self) -> String {
        let cell = self.cell.iter().map(|(name, value)| format!(", {name} {value}")).collect::<String>();
        format!("{} {} {}{cell}", self.experiment, self.profile, self.instrument)
    }
}
