//! From the plots of an experiment to figures.

use super::cells::{Cells, INSTRUMENT};
use super::words;
use super::{categories, logarithm, series};
use quorate_experiments::figures::{FIGURES, SERIES, names};
use quorate_experiments::file::Plot;
use quorate_experiments::names::PlotKind;
use quorate_plots::{Axis, Figure, PlotError, check_figure};

/// Maximum number of failed cells that a caption names.
const MAX_FAILURES_NAMED: usize = 3;

/// A plot on its way to a figure.
pub(super) struct Sketch<'s> {
    pub cells: &'s Cells<'s>,
    pub plot: &'s Plot,
    /// The cells that are drawn.
    pub drawn: Vec<usize>,
    /// Sentences below the figure.
    pub notes: Vec<String>,
}

/// Draws a plot; `None` if no cell of it was run.
///
/// # Errors
/// If the values cannot be drawn, for instance because there are too many series.
pub(super) fn figure(cells: &Cells, plot: &Plot, id: String) -> Option<Result<Figure, PlotError>> {
    let mut sketch = Sketch { cells, plot, drawn: cells.of(plot), notes: Vec::new() };
    if sketch.drawn.is_empty() {
        return None;
    }
    let drawn = match plot.kind {
        PlotKind::Curve => series::curve(&mut sketch),
        PlotKind::Line if sketch.has_numbers() => series::line(&mut sketch),
        PlotKind::Line | PlotKind::Bars => categories::bars(&mut sketch),
        PlotKind::Seconds => series::seconds(&mut sketch),
        PlotKind::Scatter => series::scatter(&mut sketch),
        PlotKind::Stacked => categories::stacked(&mut sketch),
        PlotKind::Box => categories::boxes(&mut sketch),
        PlotKind::Heat => categories::heat(&mut sketch),
    };
    sketch.note_failures();
    let (x, y) = (sketch.x_axis(), sketch.y_axis());
    let mut figure = Figure { id, title: plot.title.clone(), caption: String::new(), x, y, plot: drawn };
    logarithm::fit(&mut figure, &mut sketch.notes);
    figure.caption = sketch.notes.join(" ");
    Some(check_figure(&figure).map(|()| figure))
}

impl Sketch<'_> {
    /// Returns whether every cell has a number on the horizontal axis.
    fn has_numbers(&self) -> bool {
        let is_figure = names(FIGURES).contains(&self.plot.x.as_str());
        is_figure || self.drawn.iter().all(|cell| self.number(*cell).is_some())
    }

    /// Returns where a cell stands on the horizontal axis, if that is one of the experiment's.
    pub fn number(&self, cell: usize) -> Option<f64> {
        self.cells.value(cell, &self.plot.x)?.as_number()
    }

    /// Returns the axes that tell series apart: those of the plot, the instrument if there are several, and the axes
    /// that would otherwise put several cells in one place. Along a curve there may be any axis.
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

    fn x_axis(&self) -> Axis {
        let plot = self.plot;
        let (label, unit) = match plot.kind {
            PlotKind::Seconds => ("time".to_owned(), "s"),
            PlotKind::Scatter => ("intended sending".to_owned(), "s"),
            _ if names(FIGURES).contains(&plot.x.as_str()) => (words::label(&plot.x), words::unit(FIGURES, &plot.x)),
            _ => (words::words(&plot.x), ""),
        };
        axis(plot.x_label.as_ref(), label, plot.x_unit.as_deref(), unit, plot.log_x)
    }

    fn y_axis(&self) -> Axis {
        let plot = self.plot;
        let first = plot.y.first().map_or("", String::as_str);
        let (label, unit) = match plot.kind {
            PlotKind::Scatter => ("latency".to_owned(), "ms"),
            PlotKind::Heat => (words::words(first), ""),
            PlotKind::Seconds => (words::label(first), words::unit(SERIES, first)),
            PlotKind::Stacked if plot.y.len() > 1 => (String::new(), words::unit(FIGURES, first)),
            _ => (words::label(first), words::unit(FIGURES, first)),
        };
        axis(plot.y_label.as_ref(), label, plot.y_unit.as_deref(), unit, plot.log_y)
    }

    /// Says how often the drawn cells were run, and what their intervals are.
    pub fn note_runs(&mut self) {
        let counts = || self.drawn.iter().map(|cell| self.cells.rows(*cell).len());
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let runs = if least == most { words::count(most, "run") } else { format!("{least} to {most} runs") };
        let intervals = match most {
            0 | 1 => "one run has no interval",
            _ => "bars are 95 % confidence intervals of the mean, by Student's t, cut off at 0",
        };
        self.notes.push(format!("Means of {runs}; {intervals}."));
    }

    fn note_failures(&mut self) {
        let failed: Vec<String> = self
            .drawn
            .iter()
            .filter_map(|cell| {
                let why = self.cells.failure(*cell)?;
                Some(format!("{}: {}", self.cells.cell(*cell).label(), words::line(why)))
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

/// Creates an axis: the file's words, or those of the figure.
pub(super) fn axis(own: Option<&String>, label: String, own_unit: Option<&str>, unit: &str, log: bool) -> Axis {
    let label = own.cloned().unwrap_or(label);
    Axis { log, ..Axis::new(&label, own_unit.unwrap_or(unit)) }
}
