//! Axes: grid, ticks, labels and titles, and the margins that they need.

use super::{Frame, GAP, RIGHT, SIZE, label};
use crate::marks::foot;
use crate::plan::{Content, PanelPlan, Plan, Side};
use crate::scale::{Bands, Scale, ZERO_PART};
use crate::scene::{Anchor, Paint, Scene, Shape, Style, Text};
use crate::text;

/// Length of a tick; minor ticks are shorter.
const TICK: f64 = 4.0;
const MINOR: f64 = 2.5;
/// Height of a line of category names.
const LINE: f64 = 14.0;
/// Maximum lines of a category's name; longer names are rotated.
const MAX_LINES: usize = 2;
/// Maximum width of a rotated name.
const MAX_TURNED: f64 = 120.0;
/// Maximum width of a row name in a heat map.
const MAX_ROW_NAME: f64 = 110.0;
/// Rotation angle of names, in degrees.
const TURN: f64 = -40.0;
/// Space for the title of an axis.
const TITLE: f64 = SIZE + 6.0;
/// Space between labels of a horizontal axis.
const APART: f64 = 7.0;

/// Position of a panel in the grid of panels.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    pub first_column: bool,
    pub first_row: bool,
    pub last_in_column: bool,
}

/// Space around each panel, the same for all panels of a figure.
pub(crate) struct Margins {
    /// Left of the first column: title, labels and ticks.
    pub left: f64,
    /// Below each row, without the axis title.
    pub below: f64,
    /// Below the last panel of a column, for the axis title.
    pub title: f64,
    /// Whether category names are rotated rather than wrapped.
    turned: bool,
    /// Width of the widest label on the vertical axis.
    labels: f64,
}

impl Margins {
    pub(crate) fn of(plan: &Plan, width: f64, columns: usize) -> Margins {
        let labels = plan.panels.iter().map(|panel| vertical_labels(&panel.y)).fold(0.0, f64::max);
        let titled = plan.panels.iter().any(|panel| !panel.y_axis.title().is_empty());
        let left = labels + TICK + 4.0 + if titled { TITLE } else { 0.0 };
        let across = (width - left - RIGHT) / columns as f64 - if columns > 1 { super::BETWEEN + labels } else { 0.0 };
        let names = plan.panels.iter().filter_map(|panel| match &panel.x {
            Side::Names(bands) => Some(bands),
            Side::Numbers(_) => None,
        });
        let broken: Option<Vec<usize>> = names.clone().map(|bands| lines_of(bands, across)).collect();
        let turned = broken.is_none();
        let height = match broken {
            Some(lines) => LINE * lines.into_iter().max().unwrap_or(1).max(1) as f64,
            None => {
                let all = names.flat_map(|bands| &bands.names);
                let widest = all.map(|name| text::width(name, SIZE, false)).fold(0.0, f64::max).min(MAX_TURNED);
                widest * TURN.to_radians().sin().abs() + LINE
            }
        };
        let title = if plan.figure.x.title().is_empty() { 0.0 } else { TITLE };
        Margins { left, below: TICK + 2.0 + height + GAP, title, turned, labels }
    }
}

/// Returns the space left of panels outside the first column.
pub(crate) fn inner_left(plan: &Plan, margins: &Margins) -> f64 {
    let own = plan.panels.iter().any(|panel| panel.own_y);
    margins.labels + TICK + 4.0 + if own { TITLE } else { 0.0 }
}

/// Returns the number of lines needed by band names; `None` if a name does not fit in any number of lines.
fn lines_of(bands: &Bands, across: f64) -> Option<usize> {
    let space = across * bands.share() - APART;
    let lines = bands.names.iter().map(|name| text::wrap(name, space, SIZE, MAX_LINES).map(|lines| lines.len()));
    lines.collect::<Option<Vec<_>>>().map(|lines| lines.into_iter().max().unwrap_or(0))
}

fn vertical_labels(side: &Side) -> f64 {
    match side {
        Side::Numbers(scale) => {
            scale.ticks.iter().map(|tick| text::width(&tick.label, SIZE, false)).fold(0.0, f64::max)
        }
        Side::Names(bands) => {
            let widths = bands.names.iter().map(|name| text::width(name, SIZE, false));
            widths.fold(0.0, f64::max).min(MAX_ROW_NAME)
        }
    }
}

/// Draws the lines behind the data.
pub(crate) fn grid(panel: &PanelPlan, frame: Frame, scene: &mut Scene) {
    let style = Style::stroke(Paint::Grid, 1.0);
    if let Side::Numbers(scale) = &panel.y {
        for tick in scale.ticks.iter().filter(|tick| !tick.label.is_empty()) {
            let y = frame.up(scale.place(tick.value));
            scene.line((frame.x, y), (frame.right(), y), style);
        }
    }
    if let Side::Numbers(scale) = &panel.x {
        for tick in scale.ticks.iter().filter(|tick| !tick.label.is_empty()) {
            let x = frame.across(scale.place(tick.value));
            scene.line((x, frame.y), (x, frame.bottom()), style);
        }
    }
}

/// Draws the axes on top of the data.
pub(crate) fn draw(
    plan: &Plan,
    panel: &PanelPlan,
    frame: Frame,
    margins: &Margins,
    position: Position,
    scene: &mut Scene,
) {
    let line = Style::stroke(Paint::Rule, 1.0);
    if !matches!(panel.y, Side::Names(_)) {
        let corner = vec![(frame.x, frame.y), (frame.x, frame.bottom()), (frame.right(), frame.bottom())];
        scene.shapes.push(Shape::Path { runs: vec![corner], closed: false, style: line });
    }
    let mark = |across: f64, up: f64| -> Vec<Vec<(f64, f64)>> {
        let stroke = |shift: f64, (x, y): (f64, f64)| vec![(x + shift - 2.0, y + 4.0), (x + shift + 2.0, y - 4.0)];
        [-2.0, 2.0].map(|shift| stroke(shift, (frame.across(across), frame.up(up)))).into()
    };
    for (side, is_across) in [(&panel.x, true), (&panel.y, false)] {
        if let Side::Numbers(Scale { zero: true, .. }) = side {
            let runs = if is_across { mark(ZERO_PART / 2.0, 0.0) } else { mark(0.0, ZERO_PART / 2.0) };
            scene.shapes.push(Shape::Path { runs, closed: false, style: line });
        }
    }
    let foot = foot(panel);
    if foot > 0.0 && matches!(panel.content, Content::Bars(_)) {
        scene.line((frame.x, frame.up(foot)), (frame.right(), frame.up(foot)), line);
    }
    match &panel.x {
        Side::Numbers(scale) => horizontal_numbers(scale, frame, scene),
        Side::Names(bands) => horizontal_names(bands, frame, margins, scene),
    }
    match &panel.y {
        Side::Numbers(scale) => vertical_numbers(scale, frame, scene),
        Side::Names(bands) => vertical_names(bands, frame, scene),
    }
    if position.last_in_column {
        let content = text::shorten(&plan.figure.x.title(), frame.width, SIZE, false);
        let place = (frame.across(0.5), frame.bottom() + margins.below + margins.title - GAP - 2.0);
        scene.text(label(&content, place, Anchor::Middle, Paint::Ink));
    }
    if position.first_column || panel.own_y {
        let content = text::shorten(&panel.y_axis.title(), frame.height, SIZE, false);
        let x = frame.x - margins.labels - TICK - GAP;
        let title = label(&content, (x, frame.up(0.5)), Anchor::Middle, Paint::Ink);
        scene.text(Text { turn: -90.0, ..title });
    }
}

fn horizontal_numbers(scale: &Scale, frame: Frame, scene: &mut Scene) {
    let mut free = f64::MIN;
    for tick in &scale.ticks {
        let x = frame.across(scale.place(tick.value));
        let length = if tick.label.is_empty() { MINOR } else { TICK };
        scene.line((x, frame.bottom()), (x, frame.bottom() + length), Style::stroke(Paint::Rule, 1.0));
        let half = text::width(&tick.label, SIZE, false) / 2.0;
        if tick.label.is_empty() || x - half < free {
            continue;
        }
        free = x + half + APART;
        let place = (x, frame.bottom() + TICK + SIZE);
        scene.text(label(&tick.label, place, Anchor::Middle, Paint::Soft));
    }
}

fn horizontal_names(bands: &Bands, frame: Frame, margins: &Margins, scene: &mut Scene) {
    let space = frame.width * bands.share() - APART;
    let mut free = f64::MIN;
    for (at, name) in bands.names.iter().enumerate() {
        let x = frame.across(bands.middle(at));
        let y = frame.bottom() + TICK + SIZE;
        if margins.turned {
            if x < free {
                continue;
            }
            free = x + LINE;
            // The first names must not extend beyond the left edge of the drawing.
            let most = MAX_TURNED.min((x - 2.0) / TURN.to_radians().cos());
            let content = text::shorten_middle(name, most, SIZE);
            let line = label(&content, (x + SIZE / 3.0, y - 2.0), Anchor::End, Paint::Soft);
            scene.text(Text { turn: TURN, ..line });
            continue;
        }
        let lines = text::wrap(name, space, SIZE, MAX_LINES).unwrap_or_else(|| vec![name.clone()]);
        for (row, line) in lines.iter().enumerate() {
            let place = (x, y + LINE * row as f64);
            scene.text(label(line, place, Anchor::Middle, Paint::Soft));
        }
    }
}

fn vertical_numbers(scale: &Scale, frame: Frame, scene: &mut Scene) {
    let mut free = f64::MAX;
    for tick in &scale.ticks {
        let y = frame.up(scale.place(tick.value));
        let length = if tick.label.is_empty() { MINOR } else { TICK };
        scene.line((frame.x - length, y), (frame.x, y), Style::stroke(Paint::Rule, 1.0));
        if tick.label.is_empty() || y + SIZE / 2.0 > free {
            continue;
        }
        free = y - SIZE / 2.0 - 1.0;
        let place = (frame.x - TICK - 3.0, y + SIZE * 0.36);
        scene.text(label(&tick.label, place, Anchor::End, Paint::Soft));
    }
}

fn vertical_names(bands: &Bands, frame: Frame, scene: &mut Scene) {
    for (at, name) in bands.names.iter().enumerate() {
        let content = text::shorten_middle(name, MAX_ROW_NAME, SIZE);
        let place = (frame.x - TICK - 3.0, frame.up(bands.middle(at)) + SIZE * 0.36);
        scene.text(label(&content, place, Anchor::End, Paint::Soft));
    }
}
