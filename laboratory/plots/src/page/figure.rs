//! A figure in a page: a wide and a narrow drawing, the data of its tooltips, and its values as a table.

use serde_json::{Value, json};

use super::tables;
use crate::document::{Column, Table};
use crate::draw::{Drawing, draw};
use crate::escape::{escape, json as write_json, prose};
use crate::marks::{Mark, marks};
use crate::model::{Figure, Plot};
use crate::plan::Plan;
use crate::svg;

/// Width of the drawing for wide screens; the next constant is for phones.
const WIDE: f64 = 940.0;
const NARROW: f64 = 340.0;
/// Maximum rows of the table of values; a figure with more points refers to the result files.
const MAX_ROWS: usize = 400;
/// Resolution of mark positions, in steps per plot area.
const FINENESS: f64 = 1e4;

pub(crate) fn render(figure: &Figure) -> String {
    let plan = Plan::new(figure);
    let marks = marks(&plan);
    let (wide, narrow) = (draw(&plan, WIDE), draw(&plan, NARROW));
    let summary = summary(&plan, &marks);
    let plot = |drawing: &Drawing, class: &str, layout: usize| {
        format!(
            "<div class=\"plot {class}\" tabindex=\"0\" role=\"group\" aria-roledescription=\"interactive figure\" \
             aria-label=\"{} Arrow keys step through the values.\" \
             data-figure=\"{}\" data-layout=\"{layout}\">{}</div>\n",
            escape(&summary),
            figure.id,
            svg::inline(&drawing.scene, &summary)
        )
    };
    let caption = match figure.caption.as_str() {
        "" => String::new(),
        text => format!("<p class=\"caption\">{}</p>\n", prose(text)),
    };
    let data = write_json(&tooltips(&marks, [&wide, &narrow]));
    format!(
        "<figure id=\"{id}\" aria-labelledby=\"{id}~title\">\n<figcaption id=\"{id}~title\">{}</figcaption>\n{}{}\
         {caption}{}<script type=\"application/json\" id=\"{id}~data\">{data}</script>\n</figure>\n",
        escape(&figure.title),
        plot(&wide, "wide", 0),
        plot(&narrow, "narrow", 1),
        values(&plan, &marks),
        id = figure.id,
    )
}

fn summary(plan: &Plan, marks: &[Vec<Mark>]) -> String {
    let figure = plan.figure;
    let kind = match &figure.plot {
        Plot::Curve(_) => "Curves",
        Plot::Line(_) => "Lines",
        Plot::Scatter(_) => "Scatter plot",
        Plot::Time { .. } => "Series over time",
        Plot::Histogram { .. } => "Histogram",
        Plot::Bars(_) => "Bars",
        Plot::Stacked(_) => "Stacked bars",
        Plot::Boxes(_) => "Box plots",
        Plot::Heat { .. } => "Heat map",
    };
    let count: usize = marks.iter().map(Vec::len).sum();
    let mut upright: Vec<String> = plan.panels.iter().map(|panel| panel.y_axis.title()).collect();
    upright.dedup();
    let axes = match &figure.plot {
        Plot::Heat { value, .. } => format!("{} by {} and {}", value.title(), figure.x.title(), figure.y.title()),
        _ => format!("{} against {}", upright.join(", "), figure.x.title()),
    };
    format!("{kind}: {}. {axes}, {count} values.", figure.title)
}

/// Strings shared by many tooltips, each stored once.
#[derive(Default)]
struct Strings {
    known: std::collections::BTreeMap<String, usize>,
    all: Vec<String>,
}

impl Strings {
    fn index(&mut self, text: &str) -> usize {
        if let Some(index) = self.known.get(text) {
            return *index;
        }
        self.all.push(text.into());
        self.known.insert(text.into(), self.all.len() - 1);
        self.all.len() - 1
    }
}

/// Returns the data for the script: `frames` of each layout, and for each panel the marks as arrays of four positions,
/// the name, the command (-1 without), and name and value of each row. Texts are indices into `strings`.
fn tooltips(marks: &[Vec<Mark>], layouts: [&Drawing; 2]) -> Value {
    let mut strings = Strings::default();
    let mut mark = |mark: &Mark| {
        let places = mark.area.iter().map(|part| (part * FINENESS).round() as i64);
        let command = mark.command.as_ref().map_or(-1, |command| strings.index(command) as i64);
        let mut fields: Vec<i64> = places.collect();
        fields.extend([strings.index(&mark.name) as i64, command]);
        for (name, value) in &mark.rows {
            fields.extend([strings.index(name) as i64, strings.index(value) as i64]);
        }
        fields
    };
    let panels: Vec<Vec<Vec<i64>>> = marks.iter().map(|panel| panel.iter().map(&mut mark).collect()).collect();
    // Position of each mark's series in the legend, -1 without a legend.
    let entry = |mark: &Mark| mark.entry.map_or(-1, |entry| entry as i64);
    let entries: Vec<Vec<i64>> = marks.iter().map(|panel| panel.iter().map(entry).collect()).collect();
    let round = |value: f64| (value * 10.0).round() / 10.0;
    let frames = layouts.map(|drawing| {
        let frames = drawing.frames.iter().map(|f| [round(f.x), round(f.y), round(f.width), round(f.height)]);
        frames.collect::<Vec<_>>()
    });
    json!({ "fineness": FINENESS, "frames": frames, "panels": panels, "entries": entries, "strings": strings.all })
}

/// Returns the values as a collapsible table.
fn values(plan: &Plan, marks: &[Vec<Mark>]) -> String {
    let all =
        plan.panels.iter().zip(marks).flat_map(|(panel, marks)| marks.iter().map(move |mark| (panel.title, mark)));
    let count: usize = marks.iter().map(Vec::len).sum();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all.clone().flat_map(|(_, mark)| &mark.rows).take(MAX_ROWS * 16) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let paneled = plan.panels.iter().any(|panel| !panel.title.is_empty());
    let named = marks.iter().flatten().any(|mark| !mark.name.is_empty());
    let fixed = [(paneled, "panel"), (named, "series")];
    let titles = fixed.iter().filter(|(shown, _)| *shown).map(|(_, title)| *title).chain(names.iter().copied());
    let row = |(panel, mark): (&str, &Mark)| {
        let heads = [(paneled, panel), (named, mark.name.as_str())];
        let heads = heads.into_iter().filter(|(shown, _)| *shown).map(|(_, text)| text.to_owned());
        let value = |name: &&str| {
            let found = mark.rows.iter().find(|(known, _)| known == name);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        heads.chain(names.iter().map(value)).collect()
    };
    let rows: Vec<Vec<String>> = all.take(MAX_ROWS).map(row).collect();
    let numeric = |at: usize| {
        let fields = rows.iter().map(|row| row[at].as_str()).filter(|field| !field.is_empty());
        fields.clone().count() > 0
            && fields.clone().all(|field| field.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
    };
    let columns = titles.enumerate().map(|(at, title)| Column { title: title.into(), numeric: numeric(at) }).collect();
    let note = match count {
        0..=MAX_ROWS => String::new(),
        _ => format!("<p class=\"caption\">The first {MAX_ROWS} of {count} values; the result files have all.</p>\n"),
    };
    let table = tables::table(&Table { caption: String::new(), columns, rows });
    format!("<details>\n<summary>Values</summary>\n{table}{note}</details>\n")
}
