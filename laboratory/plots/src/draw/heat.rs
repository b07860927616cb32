//! Heat maps.

use super::{Frame, GAP, SIZE, glyphs, label};
use crate::model::HeatPanel;
use crate::palette::{heat, readable_on};
use crate::plan::Plan;
use crate::scale::{Scale, exact};
use crate::scene::{Anchor, Dash, Paint, Scene, Style};
use crate::text;

/// Width of the colour key.
const BAR: f64 = 190.0;
const BAR_HEIGHT: f64 = 11.0;
/// Number of fields in the colour key.
const FIELDS: usize = 95;
/// Padding around the number in a field.
const INSET: f64 = 3.0;

pub(crate) fn draw(plan: &Plan, panel: &HeatPanel, frame: Frame, scene: &mut Scene) {
    let Some((_, scale)) = &plan.heat else { return };
    let width = frame.width / panel.columns.len().max(1) as f64;
    let height = frame.height / panel.rows.len().max(1) as f64;
    let written = panel.cells.iter().filter_map(|cell| cell.value).map(|value| text::width(&short(value), SIZE, false));
    let legible = height > SIZE && written.fold(0.0, f64::max) + 2.0 * INSET <= width;
    for cell in &panel.cells {
        let (x, y) = (frame.x + cell.column as f64 * width, frame.bottom() - (cell.row + 1) as f64 * height);
        let middle = (x + width / 2.0, y + height / 2.0);
        let Some(value) = cell.value else {
            glyphs::failed(scene, middle);
            continue;
        };
        let colour = heat(scale.place(value));
        scene.rectangle((x, y), (width, height), Style::fill(Paint::Rgb(colour)).outlined(Paint::Surface, 1.0));
        if panel.paper {
            let outline = Style::stroke(Paint::Rgb(readable_on(colour)), 1.2).dash(Dash::Dashed);
            scene.rectangle((x + INSET, y + INSET), (width - 2.0 * INSET, height - 2.0 * INSET), outline);
        }
        if legible {
            let place = (middle.0, middle.1 + SIZE * 0.36);
            let paint = Paint::Rgb(readable_on(colour));
            scene.text(label(&short(value), place, Anchor::Middle, paint));
        }
    }
}

/// Formats a value with three significant digits.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let power = 10f64.powi(value.abs().log10().floor() as i32 - 2);
    let rounded = (value / power).round() * power;
    match rounded.abs() {
        size if size >= 1e4 => exact((rounded / 100.0).round() * 100.0),
        _ => exact(rounded),
    }
}

/// Draws the colour key, and returns its lower edge.
pub(crate) fn colour_bar(title: &str, scale: &Scale, y: f64, scene: &mut Scene) -> f64 {
    let content = text::shorten(title, scene.width, SIZE, false);
    let wide = text::width(&content, SIZE, false);
    let beside = wide + BAR + 6.0 * GAP <= scene.width;
    let (left, y) = if beside { ((wide + 3.0 * GAP).round(), y) } else { (2.0 * GAP, y + SIZE + GAP / 2.0) };
    let baseline = if beside { y + BAR_HEIGHT - 1.5 } else { y - GAP / 2.0 };
    scene.text(label(&content, (0.0, baseline), Anchor::Start, Paint::Ink));
    let step = BAR / FIELDS as f64;
    for at in 0..FIELDS {
        let colour = heat((at as f64 + 0.5) / FIELDS as f64);
        // A slight overlap hides the seams.
        let size = (step + if at + 1 < FIELDS { 0.5 } else { 0.0 }, BAR_HEIGHT);
        scene.rectangle((left + at as f64 * step, y), size, Style::fill(Paint::Rgb(colour)));
    }
    let mut free = f64::MIN;
    for tick in scale.ticks.iter().filter(|tick| !tick.label.is_empty()) {
        let x = left + scale.place(tick.value) * BAR;
        let half = text::width(&tick.label, SIZE, false) / 2.0;
        if x - half < free {
            continue;
        }
        free = x + half + GAP;
        scene.line((x, y + BAR_HEIGHT), (x, y + BAR_HEIGHT + 3.0), Style::stroke(Paint::Rule, 1.0));
        let place = (x, y + BAR_HEIGHT + SIZE + 3.0);
        scene.text(label(&tick.label, place, Anchor::Middle, Paint::Soft));
    }
    y + BAR_HEIGHT + SIZE + GAP
}
