//! Values from the paper, drawn beside ours.

use super::cells::{Group, INSTRUMENT};
use super::sketch::{Sketch, names_on};
use super::words;
use quorate_lab::experiments::Value;
use quorate_lab::experiments::file::{PaperValue, Pick};
use quorate_lab::figures::vocabulary;
use quorate_plots::{Bar, BarSeries, BoxMark, BoxSeries, Cell, HeatPanel, Hover, Point, Series};

/// Returns the paper's points for curves and lines, each with its panel's title.
pub(super) fn series(sketch: &Sketch, groups: &[Group]) -> Vec<(String, Series)> {
    let over_figure = vocabulary().figure(&sketch.plot.x).is_some();
    let point = |value: &&PaperValue| {
        let x = if over_figure { beside(sketch, value)? } else { coordinate(value, &sketch.plot.x)?.as_number()? };
        Some(Point::new(x, value.value).hover(hover(value)))
    };
    let found = of_groups(sketch, groups, vertical(sketch), &[&sketch.plot.x], point);
    found
        .into_iter()
        .map(|(panel, name, points)| (panel, Series { name, paper: true, points, ..Series::default() }))
        .collect()
}

/// Returns the paper's bars; each series with its panel's title.
pub(super) fn bars(sketch: &Sketch, groups: &[Group]) -> Vec<(String, BarSeries)> {
    let bar = |value: &&PaperValue| {
        let category = category(sketch, value)?;
        Some(Bar { category, value: Some(value.value), interval: None, hover: hover(value) })
    };
    let found = of_groups(sketch, groups, vertical(sketch), &[&sketch.plot.x], bar);
    found.into_iter().map(|(panel, name, bars)| (panel, BarSeries { name, paper: true, bars })).collect()
}

/// Returns the paper's segments of a panel's stacked bars: a series per figure, under our categories.
pub(super) fn stacked(sketch: &Sketch, groups: &[Group], panel: &str) -> Vec<BarSeries> {
    let series = |figure: &String| {
        let bar =
            |value: &&PaperValue| Some(Bar { hover: hover(value), ..Bar::new(&category(sketch, value)?, value.value) });
        let found = of_groups(sketch, groups, figure, &[&sketch.plot.x], bar);
        let own = found.into_iter().filter(|(title, ..)| title == panel);
        let bars = own.flat_map(|(_, name, bars)| {
            let more = if name.is_empty() { String::new() } else { format!(", {name}") };
            bars.into_iter().map(move |bar| Bar { category: format!("{}{more}", bar.category), ..bar })
        });
        BarSeries { name: words::label(figure), paper: true, bars: bars.collect() }
    };
    sketch.plot.y.iter().map(series).filter(|series| !series.bars.is_empty()).collect()
}

/// Returns the paper's values beside boxes. A paper gives numbers rather than distributions.
pub(super) fn boxes(sketch: &Sketch, groups: &[Group]) -> Vec<(String, BoxSeries)> {
    let mark = |value: &&PaperValue| {
        Some(BoxMark { hover: hover(value), ..BoxMark::single(&category(sketch, value)?, value.value) })
    };
    let found = of_groups(sketch, groups, vertical(sketch), &[&sketch.plot.x], mark);
    found.into_iter().map(|(panel, name, boxes)| (panel, BoxSeries { name, paper: true, boxes })).collect()
}

/// Returns the paper's heat maps, each with the columns and rows given in the paper.
pub(super) fn heat(sketch: &Sketch, groups: &[Group]) -> Vec<HeatPanel> {
    let (x, y) = (sketch.plot.x.as_str(), vertical(sketch));
    let place = |value: &&PaperValue| {
        Some((coordinate(value, x)?.clone(), coordinate(value, y)?.clone(), value.value, hover(value)))
    };
    let mut panels: Vec<HeatPanel> = Vec::new();
    for (_, name, fields) in of_groups(sketch, groups, &sketch.plot.value, &[x, y], place) {
        let title = if name.is_empty() { "paper".to_owned() } else { format!("{name} (paper)") };
        if panels.iter().any(|panel| panel.title == title) {
            continue;
        }
        let columns = names_on(sketch.cells, x, fields.iter().map(|field| &field.0));
        let rows = names_on(sketch.cells, y, fields.iter().map(|field| &field.1));
        let index = |names: &[String], axis: &str, value: &Value| {
            let own = sketch.cells.shown_value(axis, value);
            names.iter().position(|name| *name == own).unwrap_or_default()
        };
        let cells = fields.iter().map(|(across, up, value, hover)| Cell {
            column: index(&columns, x, across),
            row: index(&rows, y, up),
            value: Some(*value),
            hover: hover.clone(),
        });
        panels.push(HeatPanel { cells: cells.collect(), title, paper: true, columns, rows });
    }
    panels
}

/// Collects marks by panel and series. A value belongs to the first of our series that agrees with it in all common
/// axes, and gets the same name, in each panel that it does not contradict. `places` are the axes that the plot itself
/// shows.
fn of_groups<T>(
    sketch: &Sketch,
    groups: &[Group],
    figure: &str,
    places: &[&str],
    mark: impl Fn(&&PaperValue) -> Option<T>,
) -> Vec<(String, String, Vec<T>)> {
    let mut found: Vec<(String, String, Vec<T>)> = Vec::new();
    // The paper's values do not come from one of our instruments.
    let axes: Vec<String> = sketch.series_axes(places).into_iter().filter(|axis| axis != INSTRUMENT).collect();
    let mut panels: Vec<&str> = Vec::new();
    for group in groups {
        if !panels.contains(&group.panel.as_str()) {
            panels.push(&group.panel);
        }
    }
    for panel in panels {
        for value in values(sketch, figure) {
            let own = groups.iter().find(|group| group.panel == panel && agrees(sketch, group, value, places));
            let Some((group, mark)) = own.zip(mark(&value)) else { continue };
            sketch.quoted.borrow_mut().insert(value.place.clone());
            let name = group.cells.first().map_or_else(String::new, |cell| sketch.cells.name(*cell, &axes));
            match found.iter_mut().find(|(title, known, _)| title == panel && *known == name) {
                Some((_, _, marks)) => marks.push(mark),
                None => found.push((panel.to_owned(), name, vec![mark])),
            }
        }
    }
    found
}

/// Returns the paper's values of a figure that the plot's selection includes.
fn values<'s>(sketch: &'s Sketch, figure: &str) -> impl Iterator<Item = &'s PaperValue> {
    let all = sketch.cells.plan.experiment.paper_values.iter();
    let selected = |value: &&PaperValue| {
        sketch.plot.selection.0.iter().all(|(axis, pick)| match (pick, coordinate(value, axis)) {
            (Pick::OneOf(values), Some(own)) => values.contains(own),
            _ => true,
        })
    };
    all.filter(move |value| value.figure == figure).filter(selected)
}

/// Returns whether a value could belong to a group: it contradicts no common property of the group's cells.
fn agrees(sketch: &Sketch, group: &Group, value: &PaperValue, places: &[&str]) -> bool {
    let Some((first, others)) = group.cells.split_first() else { return false };
    value.at.iter().filter(|(axis, _)| !places.contains(&axis.as_str())).all(|(axis, own)| {
        let ours = sketch.cells.value(*first, axis);
        others.iter().any(|cell| sketch.cells.value(*cell, axis) != ours) || ours == Some(own)
    })
}

/// Returns the name of the vertical figure or axis.
fn vertical<'s>(sketch: &'s Sketch) -> &'s str {
    sketch.plot.y.first().map_or("", String::as_str)
}

/// Returns the category of a value: its position on the horizontal axis, in our wording.
fn category(sketch: &Sketch, value: &PaperValue) -> Option<String> {
    Some(sketch.cells.shown_value(&sketch.plot.x, coordinate(value, &sketch.plot.x)?))
}

fn coordinate<'v>(value: &'v PaperValue, axis: &str) -> Option<&'v Value> {
    value.at.iter().find(|(name, _)| name == axis).map(|(_, value)| value)
}

/// Returns the paper's value of the horizontal figure at the same coordinates.
fn beside(sketch: &Sketch, value: &PaperValue) -> Option<f64> {
    let all = &sketch.cells.plan.experiment.paper_values;
    let found = all.iter().find(|other| other.figure == sketch.plot.x && other.at == value.at)?;
    sketch.quoted.borrow_mut().insert(found.place.clone());
    Some(found.value)
}

/// Names the paper's values of the plot's figures that it does not show, and why; `None` if it shows all.
pub(super) fn undrawn(sketch: &Sketch) -> Option<String> {
    let plot = sketch.plot;
    let over_figure = vocabulary().figure(&plot.x).is_some();
    let value = (!plot.value.is_empty()).then_some(&plot.value);
    let mut figures: Vec<&String> = value.map_or_else(|| plot.y.iter().collect(), |value| vec![value]);
    figures.extend(over_figure.then_some(&plot.x));
    let quoted = sketch.quoted.borrow();
    let missing = figures.into_iter().flat_map(|figure| values(sketch, figure));
    let missing: Vec<&PaperValue> = missing.filter(|value| !quoted.contains(&value.place)).collect();
    let all = &sketch.cells.plan.experiment.paper_values;
    // A curve needs both of its figures at the same place.
    let is_lone = |value: &PaperValue| {
        let other = if value.figure == plot.x { plot.y.first() } else { Some(&plot.x) };
        over_figure && !all.iter().any(|own| Some(&own.figure) == other && own.at == value.at)
    };
    let (lone, others): (Vec<&PaperValue>, Vec<&PaperValue>) = missing.into_iter().partition(|value| is_lone(value));
    let shown = |value: &PaperValue| {
        let at: Vec<String> = value.at.iter().map(|(axis, own)| format!("{} {own}", words::words(axis))).collect();
        let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
        let unit = words::unit(&value.figure);
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        format!("{} {}{unit}{at} ({})", words::label(&value.figure), words::number(value.value), value.source)
    };
    let mut notes = Vec::new();
    if !lone.is_empty() {
        let list: Vec<String> = lone.into_iter().map(shown).collect();
        let why = "the paper gives only one of the two coordinates";
        notes.push(format!("Values of the paper that are not drawn, because {why}: {}.", list.join("; ")));
    }
    if !others.is_empty() {
        let count = words::count(others.len(), "value");
        let belong = if others.len() == 1 { "belongs to a series that was" } else { "belong to series that were" };
        notes.push(format!("{count} of the paper {belong} not run, and not drawn."));
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

fn hover(value: &PaperValue) -> Hover {
    let at = value.at.iter().map(|(axis, own)| (words::words(axis), own.to_string()));
    Hover { rows: at.chain([("source".to_owned(), value.source.clone())]).collect(), command: None }
}
