//! Marks of a figure for tooltips and tables, with their positions in the plot area.

use crate::model::{Axis, BarSeries, BoxSeries, HeatPanel, Hover, Plot, Series};
use crate::plan::{Content, Look, PanelPlan, Plan, Side, shown_name, slot, stack, stack_slot, step_end};
use crate::scale::figure;

/// Point, bar, box or field.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Mark {
    /// Left edge, top edge, width and height as fractions of the plot area, from its top left corner. Points have no
    /// extent.
    pub area: [f64; 4],
    /// Name of the series in the legend.
    pub name: String,
    /// Names and values, measured ones first.
    pub rows: Vec<(String, String)>,
    pub command: Option<String>,
    /// Position of its series in the legend.
    pub entry: Option<usize>,
}

/// Returns the marks of each panel.
pub(crate) fn marks(plan: &Plan) -> Vec<Vec<Mark>> {
    plan.panels.iter().map(|panel| panel_marks(plan, panel)).collect()
}

fn panel_marks(plan: &Plan, panel: &PanelPlan) -> Vec<Mark> {
    match &panel.content {
        Content::Series(all) => all.iter().flat_map(|(series, look)| of_series(plan, panel, series, *look)).collect(),
        Content::Bars(all) => {
            let each = all.iter().enumerate();
            each.flat_map(|(at, (series, look))| of_bars(plan, panel, (series, *look), at, all.len())).collect()
        }
        Content::Stacked(all) => {
            let series: Vec<BarSeries> = all.iter().map(|(series, _)| (*series).clone()).collect();
            let looks: Vec<Look> = all.iter().map(|(_, look)| *look).collect();
            of_stacks(plan, panel, &series, &looks)
        }
        Content::Boxes(all) => {
            let each = all.iter().enumerate();
            each.flat_map(|(at, (series, look))| of_boxes(plan, panel, (series, *look), at, all.len())).collect()
        }
        Content::Heat(heat) => of_heat(plan, heat),
    }
}

fn quantity(axis: &Axis, value: f64) -> (String, String) {
    let unit = if axis.unit.is_empty() { String::new() } else { format!(" {}", axis.unit) };
    (axis.label.clone(), format!("{}{unit}", figure(value)))
}

fn interval(rows: &mut Vec<(String, String)>, axis: &Axis, interval: Option<(f64, f64)>) {
    if let Some((low, high)) = interval {
        rows.push((format!("{}, interval", axis.label), format!("{} to {}", figure(low), figure(high))));
    }
}

fn place(side: &Side, value: f64) -> f64 {
    match side {
        Side::Numbers(scale) => scale.place(value),
        Side::Names(_) => 0.0,
    }
}

fn finish(
    rows: Vec<(String, String)>,
    hover: &Hover,
    command: Option<&String>,
) -> (Vec<(String, String)>, Option<String>) {
    let rows = rows.into_iter().chain(hover.rows.iter().cloned()).collect();
    (rows, hover.command.as_ref().or(command).cloned())
}

fn of_series(plan: &Plan, panel: &PanelPlan, series: &Series, look: Look) -> Vec<Mark> {
    let has_steps = plan.figure.plot.has_steps();
    let is_filled = matches!(plan.figure.plot, Plot::Histogram { .. });
    let mark = |(at, point): (usize, &crate::model::Point)| {
        let mut rows = vec![quantity(&plan.figure.x, point.x)];
        interval(&mut rows, &plan.figure.x, point.x_interval);
        if let Some(y) = point.y {
            rows.push(quantity(panel.y_axis, y));
            interval(&mut rows, panel.y_axis, point.y_interval);
        }
        let (rows, command) = finish(rows, &point.hover, series.command.as_ref());
        let left = place(&panel.x, point.x);
        let next = if has_steps { place(&panel.x, step_end(&series.points, at)) } else { left };
        let top = point.y.map_or(1.0, |y| 1.0 - place(&panel.y, y));
        let height = if is_filled { 1.0 - top } else { 0.0 };
        Mark {
            area: [left, top, (next - left).max(0.0), height],
            name: shown_name(&series.name, series.paper),
            rows,
            command,
            entry: plan.entry(look),
        }
    };
    series.points.iter().enumerate().map(mark).collect()
}

fn of_bars(plan: &Plan, panel: &PanelPlan, (series, look): (&BarSeries, Look), at: usize, count: usize) -> Vec<Mark> {
    let Side::Names(bands) = &panel.x else { return Vec::new() };
    let mark = |bar: &crate::model::Bar| {
        let mut rows = vec![(plan.figure.x.label.clone(), bar.category.clone())];
        if let Some(value) = bar.value {
            rows.push(quantity(panel.y_axis, value));
            interval(&mut rows, panel.y_axis, bar.interval);
        }
        let (rows, command) = finish(rows, &bar.hover, None);
        let (left, width) = slot(bands, &bar.category, at, count);
        let (foot, top) = (foot(panel), bar.value.map_or(foot(panel), |value| place(&panel.y, value)));
        let area = [left, 1.0 - foot.max(top), width, (foot - top).abs()];
        Mark { area, name: shown_name(&series.name, series.paper), rows, command, entry: plan.entry(look) }
    };
    series.bars.iter().map(mark).collect()
}

/// Returns the position at which bars start: 0, or the lower end of a logarithmic axis.
pub(crate) fn foot(panel: &PanelPlan) -> f64 {
    match &panel.y {
        Side::Numbers(scale) if !scale.log => scale.place(0.0),
        _ => 0.0,
    }
}

fn of_stacks(plan: &Plan, panel: &PanelPlan, all: &[BarSeries], looks: &[Look]) -> Vec<Mark> {
    let Side::Names(bands) = &panel.x else { return Vec::new() };
    let mut marks = Vec::new();
    for category in &bands.names {
        let segments = stack(all, category);
        let sum_of = |paper: bool| {
            let own = all.iter().zip(&segments).filter(|(series, _)| series.paper == paper);
            own.map(|(_, segment)| segment.1).fold(0.0, f64::max)
        };
        for ((series, look), (foot, top)) in all.iter().zip(looks).zip(segments.iter().copied()) {
            let Some(bar) = series.bars.iter().find(|bar| bar.category == *category) else { continue };
            let mut rows = vec![(plan.figure.x.label.clone(), category.clone())];
            if let Some(value) = bar.value {
                rows.push(quantity(panel.y_axis, value));
            }
            rows.push(("all segments".into(), quantity(panel.y_axis, sum_of(series.paper)).1));
            let (rows, command) = finish(rows, &bar.hover, None);
            let (left, width) = stack_slot(bands, category, all, series.paper);
            let (foot, top) = (place(&panel.y, foot), place(&panel.y, top));
            let area = [left, 1.0 - top, width, top - foot];
            let (name, entry) = (shown_name(&series.name, series.paper), plan.entry(*look));
            marks.push(Mark { area, name, rows, command, entry });
        }
    }
    marks
}

fn of_boxes(plan: &Plan, panel: &PanelPlan, (series, look): (&BoxSeries, Look), at: usize, count: usize) -> Vec<Mark> {
    let Side::Names(bands) = &panel.x else { return Vec::new() };
    let mark = |mark: &crate::model::BoxMark| {
        let [low, first, median, third, high] = mark.summary;
        let mut rows = vec![(plan.figure.x.label.clone(), mark.category.clone())];
        if mark.is_single() && series.paper {
            rows.push(quantity(panel.y_axis, median));
        } else {
            rows.push(("median".into(), quantity(panel.y_axis, median).1));
            rows.push(("quartiles".into(), format!("{} to {}", figure(first), figure(third))));
            rows.push(("whiskers".into(), format!("{} to {}", figure(low), figure(high))));
            rows.push(("outliers".into(), mark.outliers.len().to_string()));
        }
        let (rows, command) = finish(rows, &mark.hover, None);
        let (left, width) = slot(bands, &mark.category, at, count);
        let (foot, top) = (place(&panel.y, low), place(&panel.y, high));
        let area = [left, 1.0 - top, width, top - foot];
        Mark { area, name: shown_name(&series.name, series.paper), rows, command, entry: plan.entry(look) }
    };
    series.boxes.iter().map(mark).collect()
}

fn of_heat(plan: &Plan, heat: &HeatPanel) -> Vec<Mark> {
    let (across, up) = (1.0 / heat.columns.len().max(1) as f64, 1.0 / heat.rows.len().max(1) as f64);
    let mark = |cell: &crate::model::Cell| {
        let mut rows = vec![
            (plan.figure.x.title(), heat.columns[cell.column].clone()),
            (plan.figure.y.title(), heat.rows[cell.row].clone()),
        ];
        if let (Some(value), Some((axis, _))) = (cell.value, &plan.heat) {
            rows.push(quantity(axis, value));
        }
        let (rows, command) = finish(rows, &cell.hover, None);
        let area = [cell.column as f64 * across, 1.0 - (cell.row + 1) as f64 * up, across, up];
        Mark { area, name: shown_name("", heat.paper), rows, command, entry: None }
    };
    heat.cells.iter().map(mark).collect()
}
