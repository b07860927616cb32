//! Decides which cells to run again.

use crate::experiments::axes::Plan;
use crate::experiments::claims::{Readings, undecided_cells};
use crate::experiments::names::Instrument;
use crate::experiments::row::Row;
use serde::Serialize;
use std::collections::BTreeMap;

/// A missing run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Need {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Lowest repetition number without a row.
    pub repetition: u32,
    pub why: String,
}

/// Returns the next run of each cell that needs one, in order; empty if all is done.
///
/// A cell needs a run while it has fewer rows than `[repeat] min`. Up to `max`, it also needs one if it belongs to an
/// undecided point of an undecided claim, or if half the interval of a figure in a claim or a plot exceeds
/// `until_interval_percent` of the mean. A cell that failed or cannot run here is not run again.
pub fn needs(plan: &Plan, rows: &[Row]) -> Vec<Need> {
    let readings = Readings::new(plan, rows);
    let undecided = undecided(plan, &readings);
    let mut needs: Vec<Need> = (0..plan.cells.len())
        .filter_map(|cell| {
            let why = reason(plan, &readings, &undecided, cell)?;
            let taken = |number: &u32| readings.rows(cell).iter().any(|row| row.repetition == *number);
            let repetition = (0..plan.repeat.max).find(|number| !taken(number))?;
            Some(Need { cell, repetition, why })
        })
        .collect();
    needs.sort_by_key(|need| Plan::turn(need.repetition, need.cell));
    needs
}

fn reason(plan: &Plan, readings: &Readings, undecided: &BTreeMap<usize, &str>, cell: usize) -> Option<String> {
    let rows = readings.rows(cell);
    if rows.iter().any(|row| row.failure.is_some()) || rows.is_empty() && readings.obstacle(cell).is_some() {
        return None;
    }
    let count = rows.len();
    let least = plan.least_runs(cell);
    if count < least as usize {
        return Some(format!("{count} of at least {least} runs"));
    }
    if plan.cells[cell].instrument == Instrument::Analytical {
        return None;
    }
    if let Some(id) = undecided.get(&cell) {
        return Some(format!("the claim `{id}` is undecided"));
    }
    let limit = plan.repeat.until_interval_percent?;
    figures(plan).into_iter().find_map(|figure| {
        let summary = readings.summary(cell, figure).ok()?;
        match summary.half_width_percent() {
            Some(percent) if percent <= limit => None,
            Some(percent) => Some(format!("{figure} is known to {percent:.1} %, wanted {limit} %")),
            None if summary.interval.is_none() => {
                Some(format!("one run says nothing about the uncertainty of {figure}"))
            }
            // No percentage exists for a mean of 0.
            None => None,
        }
    })
}

/// Returns the cells of undecided claims, each with the id of the first such claim.
fn undecided<'p>(plan: &'p Plan, readings: &Readings) -> BTreeMap<usize, &'p str> {
    let mut cells = BTreeMap::new();
    for claim in &plan.experiment.claims {
        for cell in undecided_cells(plan, claim, readings) {
            cells.entry(cell).or_insert(claim.id.as_str());
        }
    }
    cells
}

/// Returns the figures that claims and plots use.
fn figures<'p>(plan: &'p Plan) -> Vec<&'p str> {
    let axes = plan.experiment.coordinates();
    let of_claims = plan.experiment.claims.iter().map(|claim| claim.figure.as_str());
    let of_plots = plan.experiment.plots.iter().flat_map(|plot| plot.y.iter().chain([&plot.x, &plot.value]));
    let mut figures: Vec<&str> =
        of_claims.chain(of_plots.map(String::as_str)).filter(|name| !name.is_empty() && !axes.contains(name)).collect();
    figures.sort_unstable();
    figures.dedup();
    figures
}
