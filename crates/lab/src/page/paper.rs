//! Values that the paper gives, beside ours.

use super::cells::{Group, INSTRUMENT};
use super::sketch::Sketch;
use super::words;
use quorate_experiments::Value;
use quorate_experiments::figures::{FIGURES, names};
use quorate_experiments::file::{PaperValue, Pick};
use quorate_plots::{Bar, BarSeries, Hover, Point, Series};

/// Returns the paper's points for curves and lines, each with the title of its panel.
pub(super) fn series(sketch: &Sketch, groups: &[Group]) -> Vec<(String, Series)> {
    let over_figure = names(FIGURES).contains(&sketch.plot.x.as_str());
    let point = |value: &&PaperValue| {
        let x = if over_figure { beside(sketch, value)? } else { coordinate(value, &sketch.plot.x)?.as_number()? };
        Some(Point::new(x, value.value).hover(hover(value)))
    };
    let found = of_groups(sketch, groups, point);
    found
        .into_iter()
        .map(|(panel, name, points)| (panel, Series { name, paper: true, command: None, points }))
        .collect()
}

/// Returns the paper's bars, each series with the title of its panel.
pub(super) fn bars(sketch: &Sketch, groups: &[Group]) -> Vec<(String, BarSeries)> {
    let bar = |value: &&PaperValue| {
        let category = coordinate(value, &sketch.plot.x)?.to_string();
        Some(Bar { category, value: Some(value.value), interval: None, hover: hover(value) })
    };
    let found = of_groups(sketch, groups, bar);
    found.into_iter().map(|(panel, name, bars)| (panel, BarSeries { name, paper: true, bars })).collect()
}

/// Collects marks by panel and series. A value belongs to the first of our series that agrees with it in all axes that
/// both have, so that it has the same name; in each panel that it does not contradict.
fn of_groups<T>(
    sketch: &Sketch,
    groups: &[Group],
    mark: impl Fn(&&PaperValue) -> Option<T>,
) -> Vec<(String, String, Vec<T>)> {
    let mut found: Vec<(String, String, Vec<T>)> = Vec::new();
    // The paper's values are of no instrument of ours.
    let axes: Vec<String> =
        sketch.series_axes(&[&sketch.plot.x]).into_iter().filter(|axis| axis != INSTRUMENT).collect();
    let mut panels: Vec<&str> = Vec::new();
    for group in groups {
        if !panels.contains(&group.panel.as_str()) {
            panels.push(&group.panel);
        }
    }
    for panel in panels {
        for value in values(sketch) {
            let own = groups.iter().find(|group| group.panel == panel && agrees(sketch, group, value));
            let Some((group, mark)) = own.zip(mark(&value)) else { continue };
            let name = group.cells.first().map_or_else(String::new, |cell| sketch.cells.name(*cell, &axes));
            match found.iter_mut().find(|(title, known, _)| title == panel && *known == name) {
                Some((_, _, marks)) => marks.push(mark),
                None => found.push((panel.to_owned(), name, vec![mark])),
            }
        }
    }
    found
}

/// Returns the paper's values of the vertical figure that the plot's selection does not leave out.
fn values<'s>(sketch: &'s Sketch) -> impl Iterator<Item = &'s PaperValue> {
    let all = sketch.cells.plan.experiment.paper_values.iter();
    let selected = |value: &&PaperValue| {
        sketch.plot.selection.0.iter().all(|(axis, pick)| match (pick, coordinate(value, axis)) {
            (Pick::OneOf(values), Some(own)) => values.contains(own),
            _ => true,
        })
    };
    all.filter(|value| sketch.plot.y.first() == Some(&value.figure)).filter(selected)
}

/// Returns whether a value could be one of a group: it does not contradict what all cells of the group have in common.
fn agrees(sketch: &Sketch, group: &Group, value: &PaperValue) -> bool {
    let Some((first, others)) = group.cells.split_first() else { return false };
    value.at.iter().filter(|(axis, _)| *axis != sketch.plot.x).all(|(axis, own)| {
        let ours = sketch.cells.value(*first, axis);
        others.iter().any(|cell| sketch.cells.value(*cell, axis) != ours) || ours == Some(own)
    })
}

fn coordinate<'v>(value: &'v PaperValue, axis: &str) -> Option<&'v Value> {
    value.at.iter().find(|(name, _)| name == axis).map(|(_, value)| value)
}

/// Returns the paper's value of the horizontal figure at the same place.
fn beside(sketch: &Sketch, value: &PaperValue) -> Option<f64> {
    let all = &sketch.cells.plan.experiment.paper_values;
    all.iter().find(|other| other.figure == sketch.plot.x && other.at == value.at).map(|other| other.value)
}

fn hover(value: &PaperValue) -> Hover {
    let at = value.at.iter().map(|(axis, own)| (words::words(axis), own.to_string()));
    Hover { rows: at.chain([("source".to_owned(), value.source.clone())]).collect(), command: None }
}
