//! Plots by categories: bars, stacked bars, boxes, heat maps.

use super::cells::Group;
use super::series::{in_panels, interval, note_failure};
use super::sketch::{Sketch, axis, names_on};
use super::{paper, words};
use quorate_lab::experiments::statistics::{Fences, quantile_of};
use quorate_plots::{Bar, BarSeries, BoxMark, BoxSeries, Cell, HeatPanel, Plot};

/// Draws a figure over the values of an axis, side by side.
pub(super) fn bars(sketch: &mut Sketch) -> Plot {
    sketch.note_runs();
    let groups = sketch.cells.groups(&sketch.drawn, &sketch.panel_axes(), &sketch.series_axes(&[&sketch.plot.x]));
    let y = sketch.plot.y.first().map_or("", String::as_str);
    let series = |group: &Group| {
        let bars = group.cells.iter().map(|cell| bar(sketch, *cell, y, None)).collect();
        (group.panel.clone(), BarSeries { name: group.series.clone(), paper: false, bars })
    };
    Plot::Bars(in_panels(groups.iter().map(series).chain(paper::bars(sketch, &groups))))
}

/// Draws several figures on top of each other. Axes that distinguish bars besides the horizontal one are part of their
/// names.
pub(super) fn stacked(sketch: &mut Sketch) -> Plot {
    sketch.notes.push("Means of the runs.".into());
    let groups = sketch.cells.groups(&sketch.drawn, &sketch.panel_axes(), &sketch.series_axes(&[&sketch.plot.x]));
    let mut series = Vec::new();
    for (at, panel) in groups.iter().map(|group| &group.panel).enumerate() {
        if groups[..at].iter().any(|group| group.panel == *panel) {
            continue;
        }
        for figure in &sketch.plot.y {
            let own = groups.iter().filter(|group| group.panel == *panel);
            let bars = own.flat_map(|group| {
                let name = Some(group.series.as_str()).filter(|name| !name.is_empty());
                group.cells.iter().map(move |cell| (*cell, name))
            });
            let bars = bars.map(|(cell, name)| Bar { interval: None, ..bar(sketch, cell, figure, name) });
            series.push((panel.clone(), BarSeries { name: words::label(figure), paper: false, bars: bars.collect() }));
        }
        series.extend(paper::stacked(sketch, &groups, panel).into_iter().map(|own| (panel.clone(), own)));
    }
    Plot::Stacked(in_panels(series.into_iter()))
}

/// Draws the distribution of the sampled requests if runs kept any, and otherwise of the runs.
pub(super) fn boxes(sketch: &mut Sketch) -> Plot {
    let y = sketch.plot.y.first().map_or("", String::as_str);
    let of_requests = sketch.has_boxes_of_requests();
    let of_what = if of_requests { "sampled requests" } else { "the means of the runs" };
    sketch.notes.push(format!(
        "Boxes are quartiles of {of_what}, whiskers reach to the farthest value within 1.5 interquartile ranges."
    ));
    let groups = sketch.cells.groups(&sketch.drawn, &sketch.panel_axes(), &sketch.series_axes(&[&sketch.plot.x]));
    let mark = |cell: usize| {
        let rows = sketch.cells.rows(cell).iter().filter(|row| row.failure.is_none());
        let values: Vec<f64> = match of_requests {
            true => rows.flat_map(|row| &row.samples).map(|sample| sample.latency_ms).collect(),
            false => rows.filter_map(|row| row.figures.get(y).copied()).collect(),
        };
        let fences = Fences::of(&values)?;
        let within = |value: &&f64| fences.contain(**value);
        let whiskers =
            values.iter().filter(within).fold((f64::MAX, f64::MIN), |(low, high), own| (low.min(*own), high.max(*own)));
        let quartile = |p: f64| quantile_of(&values, p).unwrap_or_default();
        Some(BoxMark {
            category: sketch.cells.shown(cell, &sketch.plot.x),
            summary: [
                whiskers.0.min(quartile(0.25)),
                quartile(0.25),
                quartile(0.5),
                quartile(0.75),
                whiskers.1.max(quartile(0.75)),
            ],
            outliers: values.iter().copied().filter(|value| !fences.contain(*value)).collect(),
            hover: sketch.cells.hover(cell, &[&sketch.plot.x, y]),
        })
    };
    let series = |group: &Group| {
        let boxes = group.cells.iter().filter_map(|cell| mark(*cell)).collect();
        (group.panel.clone(), BoxSeries { name: group.series.clone(), paper: false, boxes })
    };
    Plot::Boxes(in_panels(groups.iter().map(series).chain(paper::boxes(sketch, &groups))))
}

/// Draws a figure over two axes. Combinations of other axes have a panel each.
pub(super) fn heat(sketch: &mut Sketch) -> Plot {
    sketch.notes.push("Means of the runs.".into());
    let plot = sketch.plot;
    let (x, y) = (plot.x.as_str(), plot.y.first().map_or("", String::as_str));
    let mut axes = sketch.panel_axes();
    axes.extend(sketch.series_axes(&[x, y]));
    let groups = sketch.cells.groups(&sketch.drawn, &axes, &[]);
    let names = |axis: &str| {
        names_on(sketch.cells, axis, sketch.drawn.iter().filter_map(|cell| sketch.cells.value(*cell, axis)))
    };
    let (columns, rows) = (names(x), names(y));
    let cell = |cell: &usize| {
        let at = |names: &[String], axis: &str| {
            let own = sketch.cells.shown(*cell, axis);
            names.iter().position(|name| *name == own).unwrap_or_default()
        };
        let summary = sketch.cells.summary(*cell, &plot.value);
        let mut hover = sketch.cells.hover(*cell, &[x, y, &plot.value]);
        if let Err(why) = &summary {
            note_failure(&mut hover, why);
        }
        let value = summary.ok().map(|summary| summary.mean);
        Cell { column: at(&columns, x), row: at(&rows, y), value, hover }
    };
    let panel = |group: &Group| HeatPanel {
        title: group.panel.clone(),
        paper: false,
        columns: columns.clone(),
        rows: rows.clone(),
        cells: group.cells.iter().map(cell).collect(),
    };
    let value = axis(None, words::label(&plot.value), None, words::unit(&plot.value), false);
    Plot::Heat { value, panels: groups.iter().map(panel).chain(paper::heat(sketch, &groups)).collect() }
}

fn bar(sketch: &Sketch, cell: usize, figure: &str, more: Option<&str>) -> Bar {
    let own = sketch.cells.shown(cell, &sketch.plot.x);
    let category = more.map_or_else(|| own.clone(), |more| format!("{own}, {more}"));
    let mut hover = sketch.cells.hover(cell, &[&sketch.plot.x, figure]);
    match sketch.cells.summary(cell, figure) {
        Ok(summary) => Bar { category, value: Some(summary.mean), interval: interval(&summary), hover },
        Err(why) => {
            note_failure(&mut hover, &why);
            Bar { category, value: None, interval: None, hover }
        }
    }
}
