//! Legend above the panels.

use super::{GAP, SIZE, events, glyphs, grouped, heat, label};
use crate::model::{Plot, Trace};
use crate::plan::{Entry, Plan};
use crate::scene::{Anchor, Paint, Scene, Shape, Style};
use crate::text;

/// Width of a line sample.
const SAMPLE: f64 = 26.0;
/// Width of an area sample.
const SWATCH: f64 = 13.0;
/// Space between a sample and its name.
const SPACE: f64 = 6.0;
/// Space between entries.
const APART: f64 = 18.0;
/// Height of a line of the legend.
const ROW: f64 = 18.0;

/// Draws the legend at the top, and returns its height.
pub(crate) fn draw(plan: &Plan, labels: &events::Labels, scene: &mut Scene) -> f64 {
    let mut y = 0.0;
    if let Some((axis, scale)) = &plan.heat {
        y = heat::colour_bar(&axis.title(), scale, y, scene);
    }
    let areas = matches!(plan.figure.plot, Plot::Bars(_) | Plot::Stacked(_) | Plot::Boxes(_) | Plot::Histogram { .. });
    let sample = if areas { SWATCH } else { SAMPLE };
    let mut x = 0.0;
    for (at, entry) in plan.legend.iter().enumerate() {
        let name = text::shorten(&entry.name, scene.width - sample - SPACE, SIZE, false);
        let wide = sample + SPACE + text::width(&name, SIZE, false);
        if x > 0.0 && x + wide > scene.width {
            (x, y) = (0.0, y + ROW);
        }
        let place = (x + sample + SPACE, y + ROW / 2.0 + SIZE * 0.35);
        scene.group(Some(at), true, |scene| {
            draw_sample(plan, entry, (x, y + ROW / 2.0), scene);
            scene.text(label(&name, place, Anchor::Start, Paint::Ink));
        });
        x += wide + APART;
    }
    if !plan.legend.is_empty() {
        y += ROW;
    }
    for line in labels.key(scene.width) {
        scene.text(label(&line, (0.0, y + ROW / 2.0 + SIZE * 0.35), Anchor::Start, Paint::Event));
        y += ROW;
    }
    if y > 0.0 { y + GAP } else { y }
}

fn draw_sample(plan: &Plan, entry: &Entry, (x, y): (f64, f64), scene: &mut Scene) {
    let look = entry.look;
    let middle = (x + SAMPLE / 2.0, y);
    let line = Style::stroke(Paint::Series(look.colour()), 1.9).dash(look.dash(plan.has_markers(look.trace)));
    match plan.figure.plot {
        Plot::Bars(_) | Plot::Stacked(_) | Plot::Boxes(_) | Plot::Histogram { .. } => {
            grouped::area(scene, look, (x + 0.5, y - SWATCH / 2.0 + 1.0), (SWATCH - 1.0, SWATCH - 2.0), 0.0);
        }
        Plot::Scatter(_) if !look.paper => {
            let style = Style::fill(Paint::Series(look.colour()));
            scene.shapes.push(Shape::Circle { x: middle.0, y, radius: 3.0, style });
        }
        Plot::Scatter(_) => glyphs::marker(scene, look, middle),
        Plot::Time { .. } => scene.line((x, y), (x + SAMPLE, y), line),
        _ => {
            if look.trace.has_line() {
                scene.line((x, y), (x + SAMPLE, y), line);
            }
            if look.trace != Trace::Line {
                glyphs::marker(scene, look, middle);
            }
        }
    }
}
