//! Cells of a plan with their rows: the data of plots and tooltips.

use super::fidelity::Fidelity;
use super::finding::Finding;
use super::words;
use quorate_lab::experiments::claims::{Readings, select};
use quorate_lab::experiments::file::{Coordinate, Plot};
use quorate_lab::experiments::statistics::Summary;
use quorate_lab::experiments::{Cell, Instrument, Plan, Row, Value};
use quorate_plots::Hover;
use std::collections::BTreeMap;

/// Name under which the instrument can stand in for an axis.
pub(super) const INSTRUMENT: &str = "instrument";
/// Maximum number of further figures in a tooltip.
const MAX_FIGURES_IN_HOVER: usize = 6;

/// The cells of a finding.
pub(super) struct Cells<'f> {
    pub plan: &'f Plan<'f>,
    readings: Readings<'f>,
    fidelity: Option<&'f Fidelity>,
}

/// Cells drawn in the same style and panel.
pub(super) struct Group {
    pub panel: String,
    /// Name of the series; empty if there is only one.
    pub series: String,
    pub cells: Vec<usize>,
}

impl<'f> Cells<'f> {
    pub fn new(finding: &Finding<'f>, fidelity: Option<&'f Fidelity>) -> Cells<'f> {
        Cells { plan: finding.plan, readings: Readings::new(finding.plan, finding.rows), fidelity }
    }

    pub fn cell(&self, cell: usize) -> &Cell {
        &self.plan.cells[cell]
    }

    pub fn rows(&self, cell: usize) -> &[&'f Row] {
        self.readings.rows(cell)
    }

    pub fn summary(&self, cell: usize, figure: &str) -> Result<Summary, String> {
        self.readings.summary(cell, figure)
    }

    /// Returns the mean of the runs that did not fail; `None` if no run has the figure.
    pub fn mean_of_successes(&self, cell: usize, figure: &str) -> Option<f64> {
        let rows = self.rows(cell).iter().filter(|row| row.failure.is_none());
        let values: Vec<f64> = rows.filter_map(|row| row.figures.get(figure).copied()).collect();
        Summary::of(&values).map(|summary| summary.mean)
    }

    /// Returns the reason why a run of the cell failed.
    pub fn failure(&self, cell: usize) -> Option<&'f str> {
        self.rows(cell).iter().find_map(|row| row.failure.as_deref())
    }

    /// Returns the caveats of the cells' runs, without duplicates.
    pub fn warnings(&self, cells: &[usize]) -> Vec<String> {
        let mut warnings = Vec::new();
        for warning in cells.iter().flat_map(|cell| self.rows(*cell)).flat_map(|row| &row.warnings) {
            let warning = words::line(warning);
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        warnings
    }

    /// Returns the cells that have rows.
    pub fn run(&self) -> Vec<usize> {
        (0..self.plan.cells.len()).filter(|cell| !self.rows(*cell).is_empty()).collect()
    }

    /// Returns the reasons why cells could not be run here, with the number of cells for each.
    pub fn obstacles(&self) -> BTreeMap<&'f str, usize> {
        let mut counts = BTreeMap::new();
        for why in (0..self.plan.cells.len()).filter_map(|cell| self.readings.obstacle(cell)) {
            *counts.entry(why).or_insert(0) += 1;
        }
        counts
    }

    /// Returns the plot's cells with rows.
    pub fn of(&self, plot: &Plot) -> Vec<usize> {
        select(self.plan, self.run(), &plot.selection)
    }

    fn coordinate(&self, cell: usize, axis: &str) -> Option<&Coordinate> {
        self.cell(cell).coordinates.iter().find(|own| own.name == axis)
    }

    pub fn value(&self, cell: usize, axis: &str) -> Option<&Value> {
        self.coordinate(cell, axis).map(|own| &own.value)
    }

    /// Describes the cell's value on an axis.
    pub fn shown(&self, cell: usize, axis: &str) -> String {
        match axis {
            INSTRUMENT => self.cell(cell).instrument.to_string(),
            _ => self.coordinate(cell, axis).map_or_else(String::new, Coordinate::shown),
        }
    }

    /// Describes a value of an axis as the cells with that value do.
    pub fn shown_value(&self, axis: &str, value: &Value) -> String {
        let own = self.plan.cells.iter().flat_map(|cell| &cell.coordinates).filter(|own| own.name == axis);
        own.filter(|own| own.value == *value).map(Coordinate::shown).next().unwrap_or_else(|| value.to_string())
    }

    /// Describes the values on several axes; numbers include the axis's name.
    pub fn name(&self, cell: usize, axes: &[String]) -> String {
        let named = |axis: &String| {
            let says_enough = axis == INSTRUMENT
                || self.coordinate(cell, axis).is_some_and(|own| own.label.is_some() || own.value.as_text().is_some());
            let shown = self.shown(cell, axis);
            if says_enough { shown } else { format!("{} {shown}", words::words(axis)) }
        };
        axes.iter().map(named).collect::<Vec<_>>().join(", ")
    }

    /// Returns the axes in which the cells differ, and the instrument if it differs.
    pub fn varied(&self, cells: &[usize]) -> Vec<String> {
        let names = self.plan.experiment.coordinates();
        let axes = names.iter().map(|name| (*name).to_owned()).chain([INSTRUMENT.to_owned()]);
        let differs = |axis: &String| {
            cells.first().is_some_and(|first| {
                let of_first = self.shown(*first, axis);
                cells.iter().any(|cell| self.shown(*cell, axis) != of_first)
            })
        };
        axes.filter(differs).collect()
    }

    /// Sorts cells by panel and series, in the order of the plan.
    pub fn groups(&self, cells: &[usize], panel: &[String], series: &[String]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for cell in cells {
            let (panel, series) = (self.name(*cell, panel), self.name(*cell, series));
            match groups.iter_mut().find(|group| (&group.panel, &group.series) == (&panel, &series)) {
                Some(group) => group.cells.push(*cell),
                None => groups.push(Group { panel, series, cells: vec![*cell] }),
            }
        }
        groups
    }

    /// Returns the tooltip of a cell, without the drawn figures.
    pub fn hover(&self, cell: usize, drawn: &[&str]) -> Hover {
        let (rows, own) = (self.rows(cell), self.cell(cell));
        let mut lines = Vec::new();
        let mut add = |name: &str, value: String| lines.push((name.to_owned(), value));
        if let Some(why) = self.failure(cell) {
            add("failed", words::line(why));
        }
        for coordinate in own.coordinates.iter().filter(|own| !drawn.contains(&own.name.as_str())) {
            add(&words::words(&coordinate.name), coordinate.shown());
        }
        let figures = used_figures(self.plan).into_iter().filter(|figure| !drawn.contains(figure));
        let known = figures.filter_map(|figure| Some((figure, self.summary(cell, figure).ok()?)));
        for (figure, summary) in known.take(MAX_FIGURES_IN_HOVER) {
            add(&words::title(figure), words::summary(&summary));
        }
        add(INSTRUMENT, own.instrument.to_string());
        add("runs", rows.len().to_string());
        if let Some(noise) = noise(rows) {
            add("noise", noise);
        }
        if let Some(steady) = steady(rows) {
            add("steady", steady);
        }
        if let Some(residual) = self.residual(cell) {
            add("simulated by measured", residual);
        }
        if let Some(row) = rows.first() {
            let from = &row.provenance;
            add("seed", from.seed.to_string());
            let places = [("machine", &from.surroundings.machine), ("build", &from.surroundings.build)];
            for (name, value) in places.into_iter().filter(|(_, value)| !value.is_empty()) {
                add(name, value.clone());
            }
        }
        for warning in self.warnings(&[cell]) {
            add("warning", warning);
        }
        Hover { rows: lines, command: self.command(cell) }
    }

    /// Returns the command that repeats the first run, or the failed one.
    fn command(&self, cell: usize) -> Option<String> {
        let rows = self.rows(cell);
        let row = rows.iter().find(|row| row.failure.is_some()).or(rows.first())?;
        Some(row.provenance.command.clone()).filter(|command| !command.is_empty())
    }

    /// Describes the simulator's error at the nearest specification that was also measured.
    fn residual(&self, cell: usize) -> Option<String> {
        let own = self.cell(cell);
        let fidelity = self.fidelity.filter(|_| own.instrument == Instrument::Simulated)?;
        Some(fidelity.nearest(&own.specification)?.ratios())
    }
}

/// Returns the figures in the plots and claims of an experiment, in their order.
pub(super) fn used_figures<'p>(plan: &'p Plan) -> Vec<&'p str> {
    let coordinates = plan.experiment.coordinates();
    let plots = plan.experiment.plots.iter();
    let of_plots = plots
        .filter(|plot| plot.kind != quorate_lab::experiments::names::PlotKind::Seconds)
        .flat_map(|plot| [&plot.x, &plot.value].into_iter().chain(&plot.y))
        .map(String::as_str);
    let of_claims = plan.experiment.claims.iter().map(|claim| claim.figure.as_str());
    let mut used = Vec::new();
    for name in of_plots.chain(of_claims).filter(|name| !name.is_empty() && !coordinates.contains(name)) {
        if !used.contains(&name) {
            used.push(name);
        }
    }
    used
}

/// Describes the highest noise of the rows; `None` where noise is impossible.
fn noise(rows: &[&Row]) -> Option<String> {
    let all = || rows.iter().filter_map(|row| row.noise.as_ref());
    all().next()?;
    let steal = all().map(|noise| noise.steal_percent).fold(0.0, f64::max);
    let others = all().map(|noise| noise.others_percent).fold(0.0, f64::max);
    Some(format!("at most {} % stolen, {} % by other programs", words::number(steal), words::number(others)))
}

/// Describes the number of steady runs; `None` if it is unknown.
pub(super) fn steady(rows: &[&Row]) -> Option<String> {
    let known: Vec<bool> = rows.iter().filter_map(|row| row.noise.as_ref()?.is_steady()).collect();
    let steady = known.iter().filter(|is_steady| **is_steady).count();
    (!known.is_empty()).then(|| format!("{steady} of {}", known.len()))
}
