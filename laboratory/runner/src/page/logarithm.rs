//! Logarithmic axes, which cannot show values of 0 or below.

use quorate_plots::{Figure, Plot};

/// Lower end of intervals that reach to 0, as a fraction of the smallest value on the axis.
const LEAST_PART: f64 = 0.1;

/// Makes an axis linear if it cannot be logarithmic, and truncates intervals that reach to 0.
pub(super) fn fit(figure: &mut Figure, notes: &mut Vec<String>) {
    let (mut across, mut up) = (Vec::new(), Vec::new());
    values(&figure.plot, &mut across, &mut up);
    let lowest = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let (x, y) = (lowest(&across), lowest(&up));
    for (axis, least, name) in [(&mut figure.x, x, "horizontal"), (&mut figure.y, y, "vertical")] {
        if axis.log && least <= 0.0 {
            axis.log = false;
            notes.push(format!("The {name} axis is linear, because its values reach 0."));
        }
    }
    if figure.x.log || figure.y.log {
        let (cut_x, cut_y) = (figure.x.log.then_some(x * LEAST_PART), figure.y.log.then_some(y * LEAST_PART));
        if cut(&mut figure.plot, cut_x, cut_y) {
            notes.push("Where an interval reaches below a tenth of the least value, it is cut off there.".into());
        }
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
            // Segments of stacks add up, so their heights are meaningless on a logarithmic axis.
            if matches!(plot, Plot::Stacked(_)) {
                up.push(0.0);
            }
        }
        Plot::Boxes(panels) => {
            let boxes = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.boxes);
            boxes.for_each(|mark| up.extend(mark.summary.iter().chain(&mark.outliers)));
        }
        Plot::Heat { .. } => {}
    }
}

/// Truncates intervals at the smallest values. Returns whether any was truncated.
fn cut(plot: &mut Plot, x: Option<f64>, y: Option<f64>) -> bool {
    let mut has_cut = false;
    let mut raise = |interval: &mut Option<(f64, f64)>, least: Option<f64>| {
        if let Some((interval, least)) = interval.as_mut().zip(least).filter(|(interval, least)| interval.0 < *least) {
            interval.0 = least;
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
