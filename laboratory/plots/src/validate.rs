//! Checks of plain data before it is drawn.

use std::collections::BTreeSet;

use crate::document::{Block, Page};
use crate::model::{Axis, Bar, BarSeries, BoxSeries, Figure, HeatPanel, Panel, Plot, Point, Series};

/// Maximum number of points, bars, boxes including their outliers, or fields per figure.
pub const MAX_POINTS: usize = 100_000;
/// Maximum number of panels per figure.
pub const MAX_PANELS: usize = 24;
/// Maximum number of series per panel.
pub const MAX_SERIES: usize = 32;
/// Maximum number of categories of bars and boxes, and of rows and columns of heat maps.
pub const MAX_CATEGORIES: usize = 64;
/// Maximum distance of a value from 0.
pub const MAX_MAGNITUDE: f64 = 1e18;
/// Minimum distance of a value from 0 on a logarithmic axis.
pub const MIN_POSITIVE: f64 = 1e-18;

/// Data that cannot be drawn.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}; {help}")]
pub struct PlotError {
    /// Place of the problem: figure, panel, series and point.
    pub place: String,
    pub problem: String,
    pub help: String,
}

impl PlotError {
    fn new(place: impl Into<String>, problem: impl Into<String>, help: &str) -> PlotError {
        PlotError { place: place.into(), problem: problem.into(), help: help.into() }
    }

    fn within(mut self, outer: &str) -> PlotError {
        self.place = if self.place.is_empty() { outer.into() } else { format!("{outer}, {}", self.place) };
        self
    }
}

/// Checks a page: every figure, the uniqueness of names, and the shape of tables.
pub fn check_page(page: &Page) -> Result<(), PlotError> {
    let mut ids = BTreeSet::new();
    let mut unique = |id: &str| match ids.insert(id.to_owned()) {
        true => Ok(()),
        false => {
            Err(PlotError::new(format!("id `{id}`"), "used twice in one page", "give each section and figure its own"))
        }
    };
    for section in &page.sections {
        check_id(&section.id)?;
        unique(&section.id)?;
        for block in &section.blocks {
            match block {
                Block::Figure(figure) => {
                    check_figure(figure)?;
                    unique(&figure.id)?;
                }
                Block::Table(table) => {
                    let width = table.columns.len();
                    if let Some(at) = table.rows.iter().position(|row| row.len() != width) {
                        let problem = format!("{} fields for {width} columns", table.rows[at].len());
                        let place = format!("table `{}`, row {}", table.caption, at + 1);
                        return Err(PlotError::new(place, problem, "give one field for each column"));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Checks a figure: finite numbers, on logarithmic axes positive ones or 0 where it has a place, ordered intervals, and
/// sizes within the limits.
pub fn check_figure(figure: &Figure) -> Result<(), PlotError> {
    check_id(&figure.id)?;
    check_plot(figure).map_err(|error| error.within(&format!("figure `{}`", figure.id)))
}

fn check_id(id: &str) -> Result<(), PlotError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || id.starts_with('.') || !id.chars().all(fits) {
        let help = "use ASCII letters, digits, `-`, `_` and `.`, with no `.` in front";
        return Err(PlotError::new(format!("id `{id}`"), "not fit for a file name", help));
    }
    Ok(())
}

fn check_plot(figure: &Figure) -> Result<(), PlotError> {
    let (panels, points) = match &figure.plot {
        Plot::Curve(panels)
        | Plot::Line(panels)
        | Plot::Scatter(panels)
        | Plot::Time { panels, .. }
        | Plot::Histogram { panels, .. } => {
            (panels.len(), panels.iter().flat_map(|panel| &panel.series).map(|series| series.points.len()).sum())
        }
        Plot::Bars(panels) | Plot::Stacked(panels) => {
            (panels.len(), panels.iter().flat_map(|panel| &panel.series).map(|series| series.bars.len()).sum())
        }
        Plot::Boxes(panels) => {
            let boxes = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.boxes);
            (panels.len(), boxes.map(|mark| mark.outliers.len() + 1).sum::<usize>())
        }
        Plot::Heat { panels, .. } => (panels.len(), panels.iter().map(|panel| panel.cells.len()).sum()),
    };
    if panels == 0 {
        return Err(PlotError::new("", "no panel", "give one panel at least; it may be empty"));
    }
    at_most("", panels, MAX_PANELS, "panels")?;
    at_most("", points, MAX_POINTS, "points")?;
    match &figure.plot {
        Plot::Curve(panels) | Plot::Line(panels) | Plot::Scatter(panels) => each(figure, panels, check_series),
        Plot::Time { panels, events } | Plot::Histogram { panels, marks: events } => {
            for event in events {
                let place = format!("event `{}`", event.label);
                check_value(&place, "its start", event.from, &figure.x)?;
                if let Some(to) = event.to {
                    check_value(&place, "its end", to, &figure.x)?;
                    ordered(&place, &[event.from, to])?;
                }
            }
            each(figure, panels, check_series)
        }
        Plot::Bars(panels) => each(figure, panels, |_, y, series| check_bars(y, series)),
        Plot::Stacked(panels) => each(figure, panels, |_, y, series| check_stack(y, series)),
        Plot::Boxes(panels) => each(figure, panels, |_, y, series| check_boxes(y, series)),
        Plot::Heat { value, panels } => panels.iter().try_for_each(|panel| {
            check_heat(value, panel).map_err(|error| error.within(&format!("panel `{}`", panel.title)))
        }),
    }
}

/// Checks the series of each panel against their axes.
fn each<T>(
    figure: &Figure,
    panels: &[Panel<T>],
    check: impl Fn(&Axis, &Axis, &T) -> Result<(), PlotError>,
) -> Result<(), PlotError> {
    for panel in panels {
        let y = panel.y.as_ref().unwrap_or(&figure.y);
        at_most("", panel.series.len(), MAX_SERIES, "series")
            .and_then(|()| panel.series.iter().try_for_each(|series| check(&figure.x, y, series)))
            .map_err(|error| error.within(&format!("panel `{}`", panel.title)))?;
    }
    Ok(())
}

fn at_most(place: &str, count: usize, most: usize, things: &str) -> Result<(), PlotError> {
    if count <= most {
        return Ok(());
    }
    let help = format!("draw at most {most}: leave some out or spread them over several figures");
    Err(PlotError::new(place, format!("{count} {things}"), &help))
}

fn check_value(place: &str, name: &str, value: f64, axis: &Axis) -> Result<(), PlotError> {
    if !value.is_finite() {
        return Err(PlotError::new(place, format!("{name} is {value}"), "leave it out, or mark it as failed"));
    }
    if value.abs() > MAX_MAGNITUDE {
        let help = format!("values reach from -{MAX_MAGNITUDE:e} to {MAX_MAGNITUDE:e}; use a larger unit");
        return Err(PlotError::new(place, format!("{name} is {value:e}"), &help));
    }
    let has_place = axis.zero_place && value == 0.0;
    if axis.log && value < MIN_POSITIVE && !has_place {
        let help = format!(
            "a logarithmic axis starts at {MIN_POSITIVE:e}; use a linear one, give 0 a place (`zero_place`) or leave \
             the value out"
        );
        return Err(PlotError::new(place, format!("{name} is {value}"), &help));
    }
    Ok(())
}

fn ordered(place: &str, values: &[f64]) -> Result<(), PlotError> {
    if values.is_sorted() {
        return Ok(());
    }
    let list: Vec<String> = values.iter().map(f64::to_string).collect();
    Err(PlotError::new(place, format!("{} is not in rising order", list.join(", ")), "give the lowest value first"))
}

fn check_interval(place: &str, interval: Option<(f64, f64)>, value: Option<f64>, axis: &Axis) -> Result<(), PlotError> {
    let Some((low, high)) = interval else { return Ok(()) };
    check_value(place, "its lower bound", low, axis)?;
    check_value(place, "its upper bound", high, axis)?;
    match value {
        // A mean may lie outside an interval of the median, but an interval must not be reversed.
        Some(_) => ordered(place, &[low, high]),
        None => Err(PlotError::new(place, "an interval without a value", "leave the interval out as well")),
    }
}

fn check_series(x: &Axis, y: &Axis, series: &Series) -> Result<(), PlotError> {
    for (at, point) in series.points.iter().enumerate() {
        let place = format!("series `{}`, point {}", series.name, at + 1);
        let Point { x: across, y: up, x_interval, y_interval, .. } = point;
        check_value(&place, "x", *across, x)?;
        check_interval(&place, *x_interval, Some(*across), x)?;
        if let Some(up) = up {
            check_value(&place, "y", *up, y)?;
        }
        check_interval(&place, *y_interval, *up, y)?;
    }
    Ok(())
}

fn check_categories<'a>(series: &str, categories: impl Iterator<Item = &'a str>) -> Result<(), PlotError> {
    let mut seen = BTreeSet::new();
    for category in categories {
        if !seen.insert(category) {
            let place = format!("series `{series}`, category `{category}`");
            return Err(PlotError::new(place, "given twice", "give each category once in a series"));
        }
    }
    at_most(&format!("series `{series}`"), seen.len(), MAX_CATEGORIES, "categories")
}

fn check_bars(y: &Axis, series: &BarSeries) -> Result<(), PlotError> {
    check_categories(&series.name, series.bars.iter().map(|bar| bar.category.as_str()))?;
    for Bar { category, value, interval, .. } in &series.bars {
        let place = format!("series `{}`, category `{category}`", series.name);
        if let Some(value) = value {
            check_value(&place, "the value", *value, y)?;
        }
        check_interval(&place, *interval, *value, y)?;
    }
    Ok(())
}

fn check_stack(y: &Axis, series: &BarSeries) -> Result<(), PlotError> {
    let place = format!("series `{}`", series.name);
    if y.log {
        let help = "use a linear axis: the lengths of stacked segments mean nothing on this one";
        return Err(PlotError::new(place, "stacked bars on a logarithmic axis", help));
    }
    if let Some(bar) = series.bars.iter().find(|bar| bar.value.is_some_and(|value| value < 0.0)) {
        let problem = format!("the segment of `{}` is negative", bar.category);
        return Err(PlotError::new(place, problem, "stack values from 0 on only"));
    }
    check_bars(y, series)
}

fn check_boxes(y: &Axis, series: &BoxSeries) -> Result<(), PlotError> {
    check_categories(&series.name, series.boxes.iter().map(|mark| mark.category.as_str()))?;
    for mark in &series.boxes {
        let place = format!("series `{}`, category `{}`", series.name, mark.category);
        for (value, name) in mark
            .summary
            .iter()
            .zip(["lower whisker", "first quartile", "median", "third quartile"].iter().chain(&["upper whisker"]))
        {
            check_value(&place, &format!("the {name}"), *value, y)?;
        }
        ordered(&place, &mark.summary)?;
        mark.outliers.iter().try_for_each(|value| check_value(&place, "an outlier", *value, y))?;
    }
    Ok(())
}

fn check_heat(value: &Axis, panel: &HeatPanel) -> Result<(), PlotError> {
    at_most("", panel.columns.len(), MAX_CATEGORIES, "columns")?;
    at_most("", panel.rows.len(), MAX_CATEGORIES, "rows")?;
    let mut seen = BTreeSet::new();
    for cell in &panel.cells {
        let place = format!("cell in column {} and row {}", cell.column + 1, cell.row + 1);
        if cell.column >= panel.columns.len() || cell.row >= panel.rows.len() {
            let problem = format!("outside {} columns and {} rows", panel.columns.len(), panel.rows.len());
            return Err(PlotError::new(place, problem, "name every column and row"));
        }
        if !seen.insert((cell.column, cell.row)) {
            return Err(PlotError::new(place, "given twice", "give each cell once"));
        }
        if let Some(number) = cell.value {
            check_value(&place, "the value", number, value)?;
        }
    }
    Ok(())
}
