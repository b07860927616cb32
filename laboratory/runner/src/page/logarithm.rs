//! Logarithmic axes, where 0 needs a place of its own, and fractions shown in percent.

use quorate_lab::experiments::file::Plot as Declared;
use quorate_plots::{Axis, Figure, Panel, Plot};

/// Lower end of intervals that reach to 0, as a fraction of the smallest value on the axis.
const LEAST_PART: f64 = 0.1;

/// Converts the fractions of a plot to percent where the file asks for it.
pub(super) fn to_percent(figure: &mut Figure, declared: &Declared) {
    if declared.percent_x {
        figure.x.unit = "%".into();
    }
    if declared.percent_y {
        figure.y.unit = "%".into();
    }
    let (x, y) = (if declared.percent_x { 100.0 } else { 1.0 }, if declared.percent_y { 100.0 } else { 1.0 });
    if (x, y) == (1.0, 1.0) {
        return;
    }
    let scale = |interval: &mut Option<(f64, f64)>, by: f64| {
        *interval = interval.map(|(low, high)| (low * by, high * by));
    };
    match &mut figure.plot {
        Plot::Curve(panels)
        | Plot::Line(panels)
        | Plot::Scatter(panels)
        | Plot::Time { panels, .. }
        | Plot::Histogram { panels, .. } => {
            for panel in panels {
                if let Some(own) = panel.y.as_mut().filter(|_| declared.percent_y) {
                    own.unit = "%".into();
                }
                for point in panel.series.iter_mut().flat_map(|series| &mut series.points) {
                    // 0.07 is 7 rather than 7.000000000000001 percent.
                    point.x = rounded(point.x * x);
                    point.y = point.y.map(|value| value * y);
                    scale(&mut point.x_interval, x);
                    scale(&mut point.y_interval, y);
                }
            }
        }
        Plot::Bars(panels) | Plot::Stacked(panels) => {
            let series = panels.iter_mut().flat_map(|panel| &mut panel.series);
            for bar in series.flat_map(|series| &mut series.bars) {
                bar.value = bar.value.map(|value| value * y);
                scale(&mut bar.interval, y);
            }
        }
        Plot::Boxes(panels) => {
            let series = panels.iter_mut().flat_map(|panel| &mut panel.series);
            for mark in series.flat_map(|series| &mut series.boxes) {
                mark.summary = mark.summary.map(|value| value * y);
                mark.outliers.iter_mut().for_each(|value| *value *= y);
            }
        }
        Plot::Heat { .. } => {}
    }
}

/// Rounds to 12 significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// Gives 0 a place on logarithmic axes, makes an axis linear if it cannot be logarithmic, and truncates intervals that
/// reach to 0.
pub(super) fn fit(figure: &mut Figure, notes: &mut Vec<String>) {
    let (mut across, mut up) = (Vec::new(), Vec::new());
    values(&figure.plot, &mut across, &mut up);
    let is_stack = matches!(figure.plot, Plot::Stacked(_));
    let x = fit_axis(&mut figure.x, &across, "horizontal", false, notes);
    let y = fit_axis(&mut figure.y, &up, "vertical", is_stack, notes);
    if let Plot::Time { panels, .. } = &mut figure.plot {
        fit_own(panels, notes);
    }
    if cut(&mut figure.plot, x, y) {
        notes.push("Where an interval reaches below a tenth of the least value, it is cut off there.".into());
    }
}

/// Fits the own axes of panels over time.
fn fit_own(panels: &mut [Panel<quorate_plots::Series>], notes: &mut Vec<String>) {
    for panel in panels {
        let values: Vec<f64> =
            panel.series.iter().flat_map(|series| &series.points).filter_map(|point| point.y).collect();
        if let Some(own) = &mut panel.y {
            fit_axis(own, &values, "vertical", false, notes);
        }
    }
}

/// Least bound of an interval on a logarithmic axis.
#[derive(Clone, Copy)]
struct Least {
    value: f64,
    /// Whether intervals may reach to 0, which has a place.
    or_zero: bool,
}

/// Fits an axis to its values. Returns where intervals are cut off, if it is logarithmic.
fn fit_axis(axis: &mut Axis, values: &[f64], name: &str, is_stack: bool, notes: &mut Vec<String>) -> Option<Least> {
    if !axis.log {
        return None;
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    if least < 0.0 || is_stack {
        axis.log = false;
        let why = if is_stack { "stacked values add up" } else { "it has negative values" };
        push_once(notes, format!("The {name} axis is linear, because {why}."));
        return None;
    }
    if least == 0.0 {
        axis.zero_place = true;
        push_once(notes, format!("0 stands before the break of the logarithmic {name} axis."));
    }
    let positive = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let value = if positive.is_finite() { positive * LEAST_PART } else { 1.0 };
    Some(Least { value, or_zero: axis.zero_place })
}

fn push_once(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// Collects the values on both axes.
fn values(plot: &Plot, across: &mut Vec<f64>, up: &mut Vec<f64>) {
    match plot {
        Plot::Curve(panels)
        | Plot::Line(panels)
        | Plot::Scatter(panels)
        | Plot::Time { panels, .. }
        | Plot::Histogram { panels, .. } => {
            for point in panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points) {
                across.push(point.x);
                up.extend(point.y);
            }
        }
        Plot::Bars(panels) | Plot::Stacked(panels) => {
            let bars = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.bars);
            up.extend(bars.filter_map(|bar| bar.value));
        }
        Plot::Boxes(panels) => {
            let boxes = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.boxes);
            boxes.for_each(|mark| up.extend(mark.summary.iter().chain(&mark.outliers)));
        }
        Plot::Heat { .. } => {}
    }
}

/// Truncates intervals at the smallest values. Returns whether any was truncated.
fn cut(plot: &mut Plot, x: Option<Least>, y: Option<Least>) -> bool {
    let mut has_cut = false;
    let mut raise = |interval: &mut Option<(f64, f64)>, least: Option<Least>| {
        let Some(((low, high), least)) = interval.as_mut().zip(least) else { return };
        let has_place = least.or_zero && *low == 0.0;
        if *low < least.value && !has_place {
            (*low, *high) = (least.value, high.max(least.value));
            has_cut = true;
        }
    };
    match plot {
        Plot::Curve(panels)
        | Plot::Line(panels)
        | Plot::Scatter(panels)
        | Plot::Time { panels, .. }
        | Plot::Histogram { panels, .. } => {
            let series = panels.iter_mut().flat_map(|panel| &mut panel.series);
            for point in series.flat_map(|series| &mut series.points) {
                raise(&mut point.x_interval, x);
                raise(&mut point.y_interval, y);
            }
        }
        Plot::Bars(panels) | Plot::Stacked(panels) => {
            let series = panels.iter_mut().flat_map(|panel| &mut panel.series);
            series.flat_map(|series| &mut series.bars).for_each(|bar| raise(&mut bar.interval, y));
        }
        Plot::Boxes(_) | Plot::Heat { .. } => {}
    }
    has_cut
}
