//! Point plots: curves, lines, series over time, sampled requests.

use super::cells::{Group, INSTRUMENT};
use super::sketch::{Sketch, axis};
use super::{faults, paper, words};
use quorate_lab::experiments::Instrument;
use quorate_lab::experiments::statistics::{Summary, mean};
use quorate_lab::figures::vocabulary;
use quorate_plots::{Hover, MAX_POINTS, Panel, Plot, Point, Series, Trace};

/// Draws one figure over another, along the axes that are neither series nor panel.
pub(super) fn curve(sketch: &mut Sketch) -> Plot {
    sketch.note_runs();
    let panels = panels(sketch, over_figure);
    let is_lost = |point: &Point| point.y.is_none() && point.x == 0.0;
    if panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points).any(is_lost) {
        sketch.notes.push("Crosses at 0 are cells without a throughput: they failed, or completed nothing.".into());
    }
    Plot::Curve(panels)
}

/// Draws a figure over a numeric axis, or over another figure.
pub(super) fn line(sketch: &mut Sketch) -> Plot {
    sketch.note_runs();
    let is_figure = vocabulary().figure(&sketch.plot.x).is_some();
    Plot::Line(panels(sketch, if is_figure { over_figure } else { over_axis }))
}

/// Draws per-second series as means over the runs, with a panel per series named in the file.
pub(super) fn seconds(sketch: &mut Sketch) -> Plot {
    sketch.notes.push("Means of the runs of each second of the measured time.".into());
    let plot = sketch.plot;
    let groups = sketch.cells.groups(&sketch.drawn, &sketch.panel_axes(), &sketch.series_axes(&[]));
    let mut panels: Vec<Panel<Series>> = Vec::new();
    let mut titles: Vec<&str> = groups.iter().map(|group| group.panel.as_str()).collect();
    titles.dedup();
    for title in titles {
        for name in &plot.y {
            let own = groups.iter().filter(|group| group.panel == title);
            let series = own.map(|group| second_by_second(sketch, group, name));
            let mut panel = Panel::new(title, series.collect());
            let label = axis(None, words::label(name), None, words::series_unit(name), plot.log_y);
            panel.y = Some(label).filter(|_| plot.y.len() > 1);
            panels.push(panel);
        }
    }
    let events = faults::events(sketch);
    if !events.is_empty() {
        sketch.notes.push("Shaded: times of misbehaviour.".into());
    }
    Plot::Time { panels, events }
}

/// Draws sampled requests.
pub(super) fn scatter(sketch: &mut Sketch) -> Plot {
    let counts = sketch.drawn.iter().flat_map(|cell| sketch.cells.rows(*cell)).map(|row| row.samples.len());
    let total: usize = counts.sum();
    let step = total.div_ceil(MAX_POINTS).max(1);
    sketch.notes.push(match step {
        _ if total == 0 => "The runs kept no single requests: set `samples` in the file.".to_owned(),
        1 => format!("{}.", words::count(total, "request")),
        _ => format!("One in {step} of {}.", words::count(total, "request")),
    });
    if total > 0 {
        sketch.notes.push("Requests that were due and answered together share a mark.".to_owned());
    }
    let groups = sketch.cells.groups(&sketch.drawn, &sketch.panel_axes(), &sketch.series_axes(&[]));
    let series = |group: &Group| {
        let samples = group.cells.iter().flat_map(|cell| sketch.cells.rows(*cell)).flat_map(|row| &row.samples);
        let points = samples.step_by(step).map(|sample| Point::new(sample.at_s, sample.latency_ms));
        let command = group.cells.first().and_then(|cell| sketch.cells.hover(*cell, &[]).command);
        Series { name: group.series.clone(), command, points: points.collect(), ..Series::default() }
    };
    Plot::Scatter(in_panels(groups.iter().map(|group| (group.panel.clone(), series(group)))))
}

fn panels(sketch: &Sketch, point: fn(&Sketch, usize) -> Point) -> Vec<Panel<Series>> {
    let groups = sketch.cells.groups(&sketch.drawn, &sketch.panel_axes(), &sketch.series_axes(&[&sketch.plot.x]));
    let series = |group: &Group| {
        let points = group.cells.iter().map(|cell| point(sketch, *cell)).collect();
        let (kin, trace) = beside_formulas(sketch, group);
        (group.panel.clone(), Series { name: group.series.clone(), kin, trace, points, ..Series::default() })
    };
    in_panels(groups.iter().map(series).chain(paper::series(sketch, &groups)))
}

/// Returns the colour group and the style of a series. If formulas are drawn beside runs, formulas are lines and runs
/// are marks, hollow for the second instrument, in the same colour if all other axes agree.
fn beside_formulas(sketch: &Sketch, group: &Group) -> (String, Trace) {
    let instrument_of = |cell: &usize| sketch.cells.cell(*cell).instrument;
    let is_formula = |cell: &usize| instrument_of(cell) == Instrument::Analytical;
    let formulas = sketch.drawn.iter().filter(|cell| is_formula(cell)).count();
    let Some(own) = group.cells.first().filter(|_| formulas > 0) else { return (String::new(), Trace::Joined) };
    // Instruments in the order of the plan, independent of their panel.
    let mut measured: Vec<Instrument> = Vec::new();
    for instrument in sketch.drawn.iter().filter(|cell| !is_formula(cell)).map(instrument_of) {
        if !measured.contains(&instrument) {
            measured.push(instrument);
        }
    }
    // Without formulas, points are joined as usual, so that they remain visible.
    let trace = match measured.iter().position(|other| *other == instrument_of(own)) {
        None if formulas == sketch.drawn.len() => Trace::Joined,
        None => Trace::Line,
        Some(0) => Trace::Marks,
        Some(1) => Trace::Hollow,
        Some(_) => return (String::new(), Trace::Marks),
    };
    let mut axes = sketch.series_axes(&[&sketch.plot.x]);
    axes.retain(|axis| axis != INSTRUMENT);
    (sketch.cells.name(*own, &axes), trace)
}

/// Collects series by the title of their panel, in order of appearance.
pub(super) fn in_panels<T>(series: impl Iterator<Item = (String, T)>) -> Vec<Panel<T>> {
    let mut panels: Vec<Panel<T>> = Vec::new();
    for (title, series) in series {
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.series.push(series),
            None => panels.push(Panel::new(&title, vec![series])),
        }
    }
    panels
}

/// Returns the drawn interval of a summary, truncated at 0: no figure is negative.
pub(super) fn interval(summary: &Summary) -> Option<(f64, f64)> {
    summary.interval.map(|interval| (interval.low.max(0.0), interval.high))
}

fn over_axis(sketch: &Sketch, cell: usize) -> Point {
    let y = sketch.plot.y.first().map_or("", String::as_str);
    let mut point = Point::new(sketch.number(cell).unwrap_or_default(), 0.0);
    point.hover = sketch.cells.hover(cell, &[&sketch.plot.x, y]);
    set_y(&mut point, sketch.cells.summary(cell, y));
    point
}

/// Returns a point with a figure on each axis. Without the horizontal figure, it is at 0.
fn over_figure(sketch: &Sketch, cell: usize) -> Point {
    let (x, y) = (sketch.plot.x.as_str(), sketch.plot.y.first().map_or("", String::as_str));
    let mut point = Point::new(sketch.cells.mean_of_successes(cell, x).unwrap_or_default(), 0.0);
    point.hover = sketch.cells.hover(cell, &[x, y]);
    let across = sketch.cells.summary(cell, x);
    if let Ok(across) = &across {
        (point.x, point.x_interval) = (across.mean, interval(across));
    }
    set_y(&mut point, across.and_then(|_| sketch.cells.summary(cell, y)));
    point
}

fn set_y(point: &mut Point, summary: Result<Summary, String>) {
    match summary {
        Ok(summary) => (point.y, point.y_interval) = (Some(summary.mean), interval(&summary)),
        Err(why) => {
            point.y = None;
            note_failure(&mut point.hover, &why);
        }
    }
}

/// Adds the reason for a missing value, unless the tooltip already has it.
pub(super) fn note_failure(hover: &mut Hover, why: &str) {
    if !hover.rows.iter().any(|(name, _)| name == "failed") {
        hover.rows.insert(0, ("failed".to_owned(), words::line(why)));
    }
}

/// Returns the means over all runs of a group's cells, second by second. Runs that have ended no longer count.
fn second_by_second(sketch: &Sketch, group: &Group, name: &str) -> Series {
    let rows = group.cells.iter().flat_map(|cell| sketch.cells.rows(*cell));
    let all: Vec<&Vec<f64>> = rows.filter_map(|row| row.series.get(name)).collect();
    let seconds = all.iter().map(|values| values.len()).max().unwrap_or(0);
    let hover = group.cells.first().map(|cell| sketch.cells.hover(*cell, &[])).unwrap_or_default();
    let point = |second: usize| {
        let values: Vec<f64> = all.iter().filter_map(|values| values.get(second).copied()).collect();
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), own| (a.min(*own), b.max(*own)));
        let mut rows = vec![("runs".to_owned(), values.len().to_string())];
        if values.len() > 1 {
            rows.push(("of single runs".to_owned(), format!("{} to {}", words::number(least), words::number(most))));
        }
        let mean = mean(&values).unwrap_or_default();
        Point::new(second as f64, mean).hover(Hover { rows, command: None })
    };
    Series {
        name: group.series.clone(),
        command: hover.command,
        points: (0..seconds).map(point).collect(),
        ..Series::default()
    }
}
