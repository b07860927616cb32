//! A plot being converted to a figure: its cells, axes and notes.

use super::cells::{Cells, INSTRUMENT};
use super::words;
use quorate_lab::experiments::Value;
use quorate_lab::experiments::file::Plot;
use quorate_lab::experiments::names::PlotKind;
use quorate_lab::figures::vocabulary;
use quorate_plots::Axis;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Maximum number of failed cells named in a caption.
const MAX_FAILURES_NAMED: usize = 3;

/// A plot being converted to a figure.
pub(super) struct Sketch<'s> {
    pub cells: &'s Cells<'s>,
    pub plot: &'s Plot,
    /// The cells that are drawn.
    pub drawn: Vec<usize>,
    /// Sentences below the figure.
    pub notes: Vec<String>,
    /// Places in the file of the paper's values that are drawn.
    pub quoted: RefCell<BTreeSet<String>>,
}

impl Sketch<'_> {
    /// Returns whether every cell has a number on the horizontal axis.
    pub fn has_numbers(&self) -> bool {
        let is_figure = vocabulary().figure(&self.plot.x).is_some();
        is_figure || self.drawn.iter().all(|cell| self.number(*cell).is_some())
    }

    /// Returns a cell's position on the horizontal axis, if the axis belongs to the experiment.
    pub fn number(&self, cell: usize) -> Option<f64> {
        self.cells.value(cell, &self.plot.x)?.as_number()
    }

    /// Returns the axes that distinguish series: the plot's own, the instrument if there are several, and the axes that
    /// would otherwise put several cells in one place. Along a curve there may be any axis.
    pub fn series_axes(&self, places: &[&str]) -> Vec<String> {
        let varied = self.cells.varied(&self.drawn);
        let is_curve = self.plot.kind == PlotKind::Curve;
        let mut axes: Vec<String> = self.plot.series.iter().filter(|axis| varied.contains(axis)).cloned().collect();
        if axes.is_empty() {
            axes.clone_from(&self.plot.series);
        }
        for axis in varied {
            let has_place = places.contains(&axis.as_str()) || self.plot.panel.as_ref() == Some(&axis);
            if !has_place && !axes.contains(&axis) && (!is_curve || axis == INSTRUMENT) {
                axes.push(axis);
            }
        }
        axes
    }

    pub fn panel_axes(&self) -> Vec<String> {
        self.plot.panel.iter().cloned().collect()
    }

    /// Returns whether boxes show sampled requests: the figure is a latency, and runs kept samples.
    pub fn has_boxes_of_requests(&self) -> bool {
        let is_latency = self.plot.y.first().is_some_and(|y| words::unit(y) == "ms");
        is_latency && self.drawn.iter().flat_map(|cell| self.cells.rows(*cell)).any(|row| !row.samples.is_empty())
    }

    pub fn x_axis(&self) -> Axis {
        let plot = self.plot;
        let (label, unit) = match plot.kind {
            PlotKind::Seconds => ("time".to_owned(), "s"),
            PlotKind::Scatter => ("intended sending".to_owned(), "s"),
            PlotKind::Stages => ("message".to_owned(), ""),
            _ if vocabulary().figure(&plot.x).is_some() => (words::label(&plot.x), words::unit(&plot.x)),
            _ => (words::words(&plot.x), ""),
        };
        axis(plot.x_label.as_ref(), label, plot.x_unit.as_deref(), unit, plot.log_x)
    }

    pub fn y_axis(&self) -> Axis {
        let plot = self.plot;
        let first = plot.y.first().map_or("", String::as_str);
        let (label, unit) = match plot.kind {
            PlotKind::Scatter => ("latency".to_owned(), "ms"),
            PlotKind::Box if self.has_boxes_of_requests() => ("latency".to_owned(), "ms"),
            PlotKind::Heat => (words::words(first), ""),
            PlotKind::Stages => ("cost of one message".to_owned(), "cycles"),
            PlotKind::Seconds => (words::label(first), words::series_unit(first)),
            PlotKind::Stacked if plot.y.len() > 1 => (String::new(), words::unit(first)),
            _ => (words::label(first), words::unit(first)),
        };
        axis(plot.y_label.as_ref(), label, plot.y_unit.as_deref(), unit, plot.log_y)
    }

    /// Describes how often the drawn cells were run, and the meaning of their intervals.
    pub fn note_runs(&mut self) {
        let counts = || self.drawn.iter().map(|cell| self.cells.rows(*cell).len());
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let runs = if least == most { words::count(most, "run") } else { format!("{least} to {most} runs") };
        let intervals = match most {
            0 | 1 => "one run has no interval",
            _ => "whiskers are 95 % confidence intervals of the mean, by Student's t, cut off at 0",
        };
        self.notes.push(format!("Means of {runs}; {intervals}."));
    }

    pub fn note_failures(&mut self) {
        let has_several = self.cells.varied(&self.drawn).iter().any(|axis| axis == INSTRUMENT);
        let failed: Vec<String> = self
            .drawn
            .iter()
            .filter_map(|cell| {
                let why = self.cells.failure(*cell)?;
                let cell = self.cells.cell(*cell);
                let instrument = if has_several { format!(", {}", cell.instrument) } else { String::new() };
                Some(format!("{}{instrument}: {}", cell.label(), words::line(why)))
            })
            .collect();
        if failed.is_empty() {
            return;
        }
        let more = match failed.len().saturating_sub(MAX_FAILURES_NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let named = failed[..failed.len().min(MAX_FAILURES_NAMED)].join("; ");
        self.notes.push(format!("Failed: {named}{more}."));
    }
}

/// Returns the distinct values of an axis as text: numbers in ascending order, others in order of appearance.
pub(super) fn names_on<'v>(cells: &Cells, axis: &str, values: impl Iterator<Item = &'v Value>) -> Vec<String> {
    let mut values: Vec<&Value> = values.collect();
    if values.iter().all(|value| value.as_number().is_some()) {
        let number = |value: &Value| value.as_number().unwrap_or_default();
        values.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    let mut names: Vec<String> = Vec::new();
    for name in values.into_iter().map(|value| cells.shown_value(axis, value)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Creates an axis with the file's label, or else the figure's.
pub(super) fn axis(own: Option<&String>, label: String, own_unit: Option<&str>, unit: &str, log: bool) -> Axis {
    let label = own.cloned().unwrap_or(label);
    Axis { log, ..Axis::new(&label, own_unit.unwrap_or(unit)) }
}
