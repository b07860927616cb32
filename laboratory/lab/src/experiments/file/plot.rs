//! `[[plot]]` and `[[paper_value]]`: plots and values of the paper.

use super::claim::Selection;
use crate::experiments::figures::Vocabulary;
use crate::experiments::names::PlotKind;
use crate::experiments::source::{Node, Table, unknown};
use crate::experiments::value::Value;
use quorate_types::Fault;

const KEYS: &[&str] = &[
    "kind",
    "title",
    "x",
    "y",
    "value",
    "series",
    "panel",
    "where",
    "log_x",
    "log_y",
    "x_label",
    "y_label",
    "x_unit",
    "y_unit",
    "percent_x",
    "percent_y",
];

/// Plot of a figure over an axis or another figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    pub kind: PlotKind,
    pub title: String,
    /// An axis or a figure; empty for `seconds` and `scatter`, which are drawn over time, and for
    /// `stages`.
    pub x: String,
    /// Figures (several only for `stacked`); series for `seconds`; an axis for `heat`; empty for `scatter` and
    /// `stages`.
    pub y: Vec<String>,
    /// Figure shown by the colours of `heat`; empty for other kinds.
    pub value: String,
    /// Axes whose value combinations get a line each.
    pub series: Vec<String>,
    /// Axis whose values get a panel each.
    pub panel: Option<String>,
    /// Cells to draw.
    pub selection: Selection,
    pub log_x: bool,
    pub log_y: bool,
    /// Labels and units; `None`: the figure's or the axis's own.
    pub x_label: Option<String>,
    pub y_label: Option<String>,
    pub x_unit: Option<String>,
    pub y_unit: Option<String>,
    /// Whether fractions are shown in percent.
    pub percent_x: bool,
    pub percent_y: bool,
    /// File, line and key, for errors.
    pub place: String,
}

/// Value from the paper, drawn beside ours.
#[derive(Clone, PartialEq, Debug)]
pub struct PaperValue {
    /// Coordinates. They may lie outside every profile.
    pub at: Vec<(String, Value)>,
    /// Name of the figure.
    pub figure: String,
    pub value: f64,
    /// Section, figure or table of the paper.
    pub source: String,
    /// File, line and key, for errors.
    pub place: String,
}

impl Plot {
    /// Reads a plot. `axes` are the names of all coordinates.
    pub(crate) fn read(table: &Table, axes: &[&str], vocabulary: &Vocabulary) -> Result<Plot, Fault> {
        table.known(KEYS)?;
        let kind = table.need("kind")?.choice::<PlotKind>()?;
        let over_time = matches!(kind, PlotKind::Seconds | PlotKind::Scatter);
        let of_stages = kind == PlotKind::Stages;
        let wants_y = kind != PlotKind::Scatter && !of_stages;
        for (key, wanted) in [("x", !over_time && !of_stages), ("y", wants_y), ("value", kind == PlotKind::Heat)] {
            match table.get(key) {
                Some(node) if !wanted => {
                    return Err(node.fault(format!("means nothing in a {kind} plot"), "leave it out"));
                }
                None if wanted => drop(table.need(key)?),
                _ => {}
            }
        }
        check_percent(table, kind)?;
        let is_heat = kind == PlotKind::Heat;
        let figures = vocabulary.figure_names();
        let x_names = match kind {
            PlotKind::Curve => figures.clone(),
            PlotKind::Line => [axes, &figures[..]].concat(),
            _ => axes.to_vec(),
        };
        let y_names = match kind {
            PlotKind::Seconds => vocabulary.series_names(),
            PlotKind::Heat => axes.to_vec(),
            _ => figures.clone(),
        };
        let y = read_names(table, "y", "figure or series", &y_names)?;
        if y.len() > 1 && !matches!(kind, PlotKind::Stacked | PlotKind::Seconds) {
            return Err(table.need("y")?.fault("has several figures", "use kind = \"stacked\", or a plot for each"));
        }
        let flag = |key| table.flag(key);
        Ok(Plot {
            kind,
            title: table.need("title")?.text()?,
            x: read_name(table, "x", "axis or figure", &x_names)?.unwrap_or_default(),
            y,
            value: read_name(table, "value", "figure", &figures)?.filter(|_| is_heat).unwrap_or_default(),
            series: read_names(table, "series", "axis", axes)?,
            panel: read_name(table, "panel", "axis", axes)?,
            selection: table.table("where")?.map_or(Ok(Selection::default()), |table| Selection::read(&table))?,
            log_x: flag("log_x")?,
            log_y: flag("log_y")?,
            x_label: table.text("x_label")?,
            y_label: table.text("y_label")?,
            x_unit: table.text("x_unit")?,
            y_unit: table.text("y_unit")?,
            percent_x: flag("percent_x")?,
            percent_y: flag("percent_y")?,
            place: table.place(),
        })
    }
}

impl PaperValue {
    pub(crate) fn read(table: &Table, axes: &[&str], vocabulary: &Vocabulary) -> Result<PaperValue, Fault> {
        table.known(&["at", "figure", "value", "source"])?;
        let mut at = Vec::new();
        for (key, node) in table.need("at")?.table()?.nodes() {
            if !axes.contains(&key.as_str()) {
                return Err(unknown(node.place(), "axis", &key, axes));
            }
            at.push((key, node.value()?));
        }
        table.need("figure")?;
        let figure = read_name(table, "figure", "figure", &vocabulary.figure_names())?.unwrap_or_default();
        let value = table.need("value")?.number()?;
        Ok(PaperValue { at, figure, value, source: table.need("source")?.text()?, place: table.place() })
    }
}

/// Refuses percent on axes of categories or times, and beside a unit.
fn check_percent(table: &Table, kind: PlotKind) -> Result<(), Fault> {
    let is_numeric = match kind {
        PlotKind::Curve | PlotKind::Line => [true, true],
        PlotKind::Bars | PlotKind::Stacked | PlotKind::Box | PlotKind::Seconds => [false, true],
        PlotKind::Heat | PlotKind::Scatter | PlotKind::Stages => [false, false],
    };
    for ((key, unit), is_numeric) in [("percent_x", "x_unit"), ("percent_y", "y_unit")].into_iter().zip(is_numeric) {
        let Some(node) = table.get(key) else { continue };
        if !is_numeric {
            return Err(node.fault(format!("means nothing on this axis of a {kind} plot"), "leave it out"));
        }
        if table.get(unit).is_some() {
            return Err(node.fault(format!("`{unit}` names another unit"), "leave one of them out"));
        }
    }
    Ok(())
}

fn read_name(table: &Table, key: &str, what: &str, known: &[&str]) -> Result<Option<String>, Fault> {
    table.get(key).map(|node| checked(&node, what, known)).transpose()
}

/// Reads a name or a list of names.
fn read_names(table: &Table, key: &str, what: &str, known: &[&str]) -> Result<Vec<String>, Fault> {
    match table.get(key) {
        None => Ok(Vec::new()),
        Some(node) if node.is_list() => node.list()?.iter().map(|node| checked(node, what, known)).collect(),
        Some(node) => Ok(vec![checked(&node, what, known)?]),
    }
}

fn checked(node: &Node, what: &str, known: &[&str]) -> Result<String, Fault> {
    let name = node.text()?;
    if known.contains(&name.as_str()) { Ok(name) } else { Err(unknown(node.place(), what, &name, known)) }
}
