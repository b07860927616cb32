//! Converts a plan to shapes, for a given width.

mod axes;
mod events;
mod glyphs;
mod grouped;
mod heat;
mod legend;
mod series;

pub(crate) use heat::short;

use crate::model::Plot;
use crate::plan::{Content, PanelPlan, Plan, Side};
use crate::scene::{Anchor, Paint, Scene, Style, Text};
use crate::text;

/// Font size of labels and ticks.
pub(crate) const SIZE: f64 = 12.0;
/// Space between parts of the drawing.
const GAP: f64 = 8.0;
/// Minimum width for panels side by side.
const MIN_WIDE: f64 = 560.0;
/// Height of the plot area of a single-panel figure.
const SINGLE_HEIGHT: f64 = 300.0;
/// Height of the plot area of each of several panels, and of narrow panels.
const PANEL_HEIGHT: f64 = 220.0;
/// Height of the plot area of each of several panels over time.
const TIME_HEIGHT: f64 = 150.0;
/// Height of a row of a heat map; the next constants bound the total height.
const HEAT_ROW: f64 = 34.0;
const MIN_HEAT: f64 = 120.0;
const MAX_HEAT: f64 = 420.0;
/// Space between panels side by side.
const BETWEEN: f64 = 22.0;
/// Space to the right of the last panel, for half of the last number.
const RIGHT: f64 = 14.0;

/// Plot area of a panel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Frame {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Frame {
    /// Returns the x coordinate of a fraction of the width.
    pub(crate) fn across(&self, part: f64) -> f64 {
        self.x + part * self.width
    }

    /// Returns the y coordinate of a fraction of the height, from the bottom.
    pub(crate) fn up(&self, part: f64) -> f64 {
        self.bottom() - part * self.height
    }

    pub(crate) fn right(&self) -> f64 {
        self.x + self.width
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

/// Shapes of a figure, and the plot area of each panel.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Drawing {
    pub scene: Scene,
    pub frames: Vec<Frame>,
}

/// Draws a figure `width` pixels wide; the height follows from the content.
pub(crate) fn draw(plan: &Plan, width: f64) -> Drawing {
    let mut scene = Scene { width, ..Scene::default() };
    let columns = columns(plan, width);
    let outer = axes::Margins::of(plan, width, columns);
    let labels = events::Labels::of(plan, width - outer.left - RIGHT);
    let top = legend::draw(plan, &labels, &mut scene);
    let titled = plan.panels.iter().any(|panel| !panel.title.is_empty());
    let above = GAP / 2.0 + if titled { SIZE + GAP } else { 0.0 };
    let inner = axes::inner_left(plan, &outer);
    let height = frame_height(plan, columns, width);
    let mut frames = Vec::new();
    let mut y = top;
    for (row, panels) in plan.panels.chunks(columns).enumerate() {
        // Only the first row has event labels: the rows below share its axis.
        y += above + if row == 0 { labels.height() } else { 0.0 };
        let spaces = outer.left + RIGHT + (BETWEEN + inner) * (columns - 1) as f64;
        let each = (width - spaces) / columns as f64;
        for at in 0..panels.len() {
            let x = outer.left + at as f64 * (each + BETWEEN + inner);
            frames.push(Frame { x, y, width: each, height });
        }
        // The last panel of a column may be above the last row.
        let last = (row + 2) * columns > plan.panels.len();
        y += height + outer.below + if last { outer.title } else { 0.0 };
    }
    scene.height = y.ceil();
    for (at, (panel, frame)) in plan.panels.iter().zip(&frames).enumerate() {
        if !panel.title.is_empty() {
            let lift = if at < columns { labels.height() } else { 0.0 };
            let content = text::shorten(panel.title, frame.width, SIZE, true);
            let place = (frame.x, frame.y - GAP - lift);
            let title = Text { bold: true, ..label(&content, place, Anchor::Start, Paint::Ink) };
            scene.text(title);
        }
        let position = axes::Position {
            first_column: at % columns == 0,
            first_row: at < columns,
            last_in_column: at + columns >= plan.panels.len(),
        };
        draw_panel(plan, panel, *frame, &outer, &labels, position, &mut scene);
    }
    Drawing { scene, frames }
}

fn draw_panel(
    plan: &Plan,
    panel: &PanelPlan,
    frame: Frame,
    margins: &axes::Margins,
    labels: &events::Labels,
    position: axes::Position,
    scene: &mut Scene,
) {
    axes::grid(panel, frame, scene);
    if plan.figure.plot.has_steps() {
        labels.draw_spans(plan, panel, frame, scene);
    }
    match &panel.content {
        Content::Series(all) => series::draw(plan, panel, all, frame, scene),
        Content::Bars(all) => grouped::bars(plan, panel, all, frame, scene),
        Content::Stacked(all) => grouped::stacked(plan, panel, all, frame, scene),
        Content::Boxes(all) => grouped::boxes(plan, panel, all, frame, scene),
        Content::Heat(heat) => heat::draw(plan, heat, frame, scene),
    }
    axes::draw(plan, panel, frame, margins, position, scene);
    if plan.figure.plot.has_steps() && position.first_row {
        labels.draw(panel, frame, scene);
    }
    if is_empty(panel) {
        let place = (frame.across(0.5), frame.up(0.5));
        scene.text(label("no data", place, Anchor::Middle, Paint::Soft));
    }
}

fn is_empty(panel: &PanelPlan) -> bool {
    match &panel.content {
        Content::Series(all) => all.iter().all(|(series, _)| series.points.is_empty()),
        Content::Bars(all) | Content::Stacked(all) => all.iter().all(|(series, _)| series.bars.is_empty()),
        Content::Boxes(all) => all.iter().all(|(series, _)| series.boxes.is_empty()),
        Content::Heat(heat) => heat.cells.is_empty(),
    }
}

fn columns(plan: &Plan, width: f64) -> usize {
    let panels = plan.panels.len();
    if width < MIN_WIDE || matches!(plan.figure.plot, Plot::Time { .. }) {
        return 1;
    }
    match panels {
        0 | 1 => 1,
        2 | 4 => 2,
        _ => 3,
    }
}

fn frame_height(plan: &Plan, columns: usize, width: f64) -> f64 {
    let rows = plan.panels.iter().filter_map(|panel| match &panel.y {
        Side::Names(bands) => Some(bands.names.len()),
        Side::Numbers(_) => None,
    });
    match (&plan.figure.plot, rows.max()) {
        (_, Some(rows)) => (rows as f64 * HEAT_ROW).clamp(MIN_HEAT, MAX_HEAT),
        (Plot::Time { panels, .. }, _) if panels.len() > 1 => TIME_HEIGHT,
        (Plot::Time { .. } | Plot::Histogram { .. }, _) => PANEL_HEIGHT,
        _ if columns == 1 && plan.panels.len() == 1 && width >= MIN_WIDE => SINGLE_HEIGHT,
        _ => PANEL_HEIGHT,
    }
}

/// Returns a line of text in the standard size.
pub(crate) fn label(content: &str, (x, y): (f64, f64), anchor: Anchor, paint: Paint) -> Text {
    Text { x, y, content: content.into(), size: SIZE, bold: false, anchor, turn: 0.0, paint }
}

/// Returns the style of thin lines in the colour of a series.
fn thin(colour: usize) -> Style {
    Style::stroke(Paint::Series(colour), 1.2)
}
