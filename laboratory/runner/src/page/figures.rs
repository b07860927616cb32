//! Converts an experiment's plots to figures.

use super::cells::Cells;
use super::sketch::Sketch;
use super::{categories, logarithm, origin, paper, series, stages};
use quorate_lab::experiments::file::Plot;
use quorate_lab::experiments::names::PlotKind;
use quorate_plots::{Figure, PlotError, check_figure};
use std::cell::RefCell;

/// Draws a plot; `None` if none of its cells were run.
///
/// # Errors
/// If the values cannot be drawn, for instance because there are too many series.
pub(super) fn figure(cells: &Cells, plot: &Plot, id: String) -> Option<Result<Figure, PlotError>> {
    let mut sketch = Sketch { cells, plot, drawn: cells.of(plot), notes: Vec::new(), quoted: RefCell::default() };
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
        PlotKind::Stages => stages::stages(&mut sketch),
    };
    sketch.notes.extend(paper::undrawn(&sketch));
    sketch.note_failures();
    let (x, y) = (sketch.x_axis(), sketch.y_axis());
    let mut figure = Figure { id, title: plot.title.clone(), caption: String::new(), x, y, plot: drawn };
    logarithm::to_percent(&mut figure, plot);
    logarithm::fit(&mut figure, &mut sketch.notes);
    sketch.notes.push(origin::caption(cells, &sketch.drawn));
    figure.caption = sketch.notes.join(" ");
    Some(check_figure(&figure).map(|()| figure))
}
