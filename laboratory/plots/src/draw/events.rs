//! Marked events of plots over time: lines at moments, shaded spans, and their labels above the first panel.

use super::{Frame, GAP, SIZE, label};
use crate::model::Event;
use crate::plan::{PanelPlan, Plan, Side};
use crate::scene::{Anchor, Dash, Paint, Scene, Style};
use crate::text;

/// Maximum rows of labels; if the names need more, events are numbered.
const MAX_ROWS: usize = 2;
/// Height of a row of labels.
const ROW: f64 = 15.0;

struct Placed {
    /// Centre of the label, from the left edge of the plot area.
    middle: f64,
    row: usize,
    text: String,
}

/// Labels of the events of a figure.
pub(crate) struct Labels {
    placed: Vec<Placed>,
    rows: usize,
    /// Distinct names, in the order of their numbers; empty if names are shown directly.
    numbered: Vec<String>,
}

impl Labels {
    /// Places the labels above a plot area of the given width.
    pub(crate) fn of(plan: &Plan, width: f64) -> Labels {
        let Some(Side::Numbers(x)) = plan.panels.first().map(|panel| &panel.x) else {
            return Labels { placed: Vec::new(), rows: 0, numbered: Vec::new() };
        };
        let middle = |event: &Event| {
            let (from, to) = (x.place(event.from), x.place(event.to.unwrap_or(event.from)));
            (from + to) / 2.0 * width
        };
        let names: Vec<(f64, String)> = plan.events.iter().map(|event| (middle(event), event.label.clone())).collect();
        let (placed, rows) = arrange(&names, width);
        if rows <= MAX_ROWS {
            return Labels { placed, rows, numbered: Vec::new() };
        }
        let mut numbered: Vec<String> = Vec::new();
        let mut numbers: Vec<(f64, String)> = Vec::new();
        for (middle, name) in names {
            let index = numbered.iter().position(|known| *known == name).unwrap_or_else(|| {
                numbered.push(name);
                numbered.len() - 1
            });
            numbers.push((middle, (index + 1).to_string()));
        }
        let (mut placed, rows) = arrange(&numbers, width);
        // If events do not even fit as numbers, only their lines remain.
        placed.retain(|label| label.row < MAX_ROWS);
        Labels { placed, rows: rows.min(MAX_ROWS), numbered }
    }

    /// Returns the height of the rows.
    pub(crate) fn height(&self) -> f64 {
        self.rows as f64 * ROW
    }

    /// Returns the lines of the key to the numbers.
    pub(crate) fn key(&self, width: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (at, name) in self.numbered.iter().enumerate() {
            let item = text::shorten(&format!("{}: {name}", at + 1), width, SIZE, false);
            let longer = lines.last().map(|line| format!("{line} · {item}"));
            match (longer, lines.last_mut()) {
                (Some(longer), Some(line)) if text::width(&longer, SIZE, false) <= width => *line = longer,
                _ => lines.push(item),
            }
        }
        lines
    }

    /// Draws the spans and moments of a panel.
    pub(crate) fn draw_spans(&self, plan: &Plan, panel: &PanelPlan, frame: Frame, scene: &mut Scene) {
        let Side::Numbers(x) = &panel.x else { return };
        for event in plan.events {
            let from = frame.across(x.place(event.from));
            match event.to {
                Some(to) => {
                    let width = (frame.across(x.place(to)) - from).max(1.0);
                    let style = Style::fill(Paint::Event).opacity(12);
                    scene.rectangle((from, frame.y), (width, frame.height), style);
                }
                None => {
                    let style = Style::stroke(Paint::Event, 1.2).dash(Dash::Dotted);
                    scene.line((from, frame.y), (from, frame.bottom()), style);
                }
            }
        }
    }

    /// Draws the labels above a panel.
    pub(crate) fn draw(&self, panel: &PanelPlan, frame: Frame, scene: &mut Scene) {
        debug_assert!(matches!(panel.x, Side::Numbers(_)));
        for placed in &self.placed {
            let place = (frame.x + placed.middle, frame.y - GAP / 2.0 - ROW * placed.row as f64);
            scene.text(label(&placed.text, place, Anchor::Middle, Paint::Event));
        }
    }
}

/// Arranges labels in rows, from the bottom up, without overlaps.
fn arrange(labels: &[(f64, String)], width: f64) -> (Vec<Placed>, usize) {
    let mut rows: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut placed = Vec::new();
    for (middle, name) in labels {
        let text = text::shorten(name, width, SIZE, false);
        let half = text::width(&text, SIZE, false) / 2.0;
        let middle = middle.min(width - half).max(half);
        let free = |row: &Vec<(f64, f64)>| {
            row.iter().all(|(from, to)| middle + half + GAP < *from || middle - half - GAP > *to)
        };
        let row = rows.iter().position(free).unwrap_or_else(|| {
            rows.push(Vec::new());
            rows.len() - 1
        });
        rows[row].push((middle - half, middle + half));
        placed.push(Placed { middle, row, text });
    }
    (placed, rows.len())
}
