//! `docs/RESULTS.md` has a line for each column of an export, with its unit.

use quorate_experiments::figures::{FIGURES, SERIES};
use quorate_runner::export::{IDENTITY, ORIGIN, SAMPLE};

const RESULTS: &str = include_str!("../../../docs/RESULTS.md");

/// Returns the line of the documentation for a column.
fn line(name: &str, unit: &str, about: &str) -> String {
    format!("| `{name}` | {unit} | {about} |").replace("|  |", "| |")
}

#[test]
fn every_column_is_documented() {
    let fixed = IDENTITY.iter().chain(ORIGIN).chain(SAMPLE).map(|column| line(column.name, column.unit, column.about));
    let figures = FIGURES.iter().chain(SERIES).map(|figure| line(figure.name, figure.unit, figure.about));
    let missing: Vec<String> = fixed.chain(figures).filter(|line| !RESULTS.lines().any(|own| own == line)).collect();
    assert!(missing.is_empty(), "docs/RESULTS.md lacks these lines:\n{}", missing.join("\n"));
}
