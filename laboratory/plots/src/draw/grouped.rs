//! Bars, stacked bars and boxes, grouped by category.

use super::{Frame, glyphs};
use crate::marks::foot;
use crate::model::{Bar, BarSeries, BoxMark, BoxSeries};
use crate::plan::{Look, PanelPlan, Plan, Side, slot, stack, stack_slot};
use crate::scene::{Dash, Paint, Scene, Shape, Style};

/// Minimum height of a bar, so that small values remain visible.
const MIN_BAR: f64 = 1.0;
/// Height of the signs for failed measurements above the bottom of the plot.
const FAILED: f64 = 7.0;

/// Outline width of areas without a solid colour.
const OUTLINE: f64 = 1.5;
/// Seam between the segments of a stack.
const SEAM: f64 = 0.8;
/// Opacity of pale areas, in percent.
const PALE: u8 = 35;

/// Draws an area: filled, with a seam of this width, or with a dashed outline for values from a paper. After all
/// colours are used, further series are pale with an outline. Hatching distinguishes areas printed in grey.
pub(crate) fn area(scene: &mut Scene, look: Look, place: (f64, f64), size: (f64, f64), seam: f64) {
    let colour = Paint::Series(look.colour());
    if look.paper {
        let style = Style::fill(Paint::Surface).outlined(colour, OUTLINE).dash(Dash::Dashed);
        scene.rectangle(place, size, style);
        return glyphs::hatch(scene, look.hatch(), place, size, colour);
    }
    if !look.repeats_a_colour() {
        let full = Style::fill(colour);
        scene.rectangle(place, size, if seam > 0.0 { full.outlined(Paint::Surface, seam) } else { full });
        return glyphs::hatch(scene, look.hatch(), place, size, Paint::Surface);
    }
    scene.rectangle(place, size, Style::fill(Paint::Surface));
    scene.rectangle(place, size, Style::fill(colour).opacity(PALE));
    let inside = (place.0 + OUTLINE / 2.0, place.1 + OUTLINE / 2.0);
    let inner = ((size.0 - OUTLINE).max(0.0), (size.1 - OUTLINE).max(0.0));
    scene.rectangle(inside, inner, Style::stroke(colour, OUTLINE));
    glyphs::hatch(scene, look.hatch(), place, size, colour);
}

pub(crate) fn bars(plan: &Plan, panel: &PanelPlan, all: &[(&BarSeries, Look)], frame: Frame, scene: &mut Scene) {
    let (Side::Names(bands), Side::Numbers(scale)) = (&panel.x, &panel.y) else { return };
    for (at, (series, look)) in all.iter().enumerate() {
        let bar = |bar: &Bar, scene: &mut Scene| {
            let (left, width) = slot(bands, &bar.category, at, all.len());
            let (left, width) = (frame.across(left), width * frame.width);
            let Some(value) = bar.value else {
                return glyphs::failed(scene, (left + width / 2.0, frame.bottom() - FAILED));
            };
            let (one, two) = (frame.up(foot(panel)), frame.up(scale.place(value)));
            let height = (one - two).abs().max(MIN_BAR);
            area(scene, *look, (left, one.min(two).min(frame.bottom() - height)), (width, height), 0.0);
            if let Some((low, high)) = bar.interval {
                let ends = (frame.up(scale.place(low)), frame.up(scale.place(high)));
                // The halo keeps the lower half visible on the bar.
                glyphs::upright(scene, left + width / 2.0, ends, Style::stroke(Paint::Surface, 3.2));
                glyphs::upright(scene, left + width / 2.0, ends, Style::stroke(Paint::Ink, 1.2));
            }
        };
        scene.group(plan.entry(*look), false, |scene| series.bars.iter().for_each(|own| bar(own, scene)));
    }
}

pub(crate) fn stacked(plan: &Plan, panel: &PanelPlan, all: &[(&BarSeries, Look)], frame: Frame, scene: &mut Scene) {
    let (Side::Names(bands), Side::Numbers(scale)) = (&panel.x, &panel.y) else { return };
    let series: Vec<BarSeries> = all.iter().map(|(series, _)| (*series).clone()).collect();
    for category in &bands.names {
        for ((from, to), (series_of_segment, look)) in stack(&series, category).into_iter().zip(all) {
            let (left, width) = stack_slot(bands, category, &series, look.paper);
            let (left, width) = (frame.across(left), width * frame.width);
            let (bottom, top) = (frame.up(scale.place(from)), frame.up(scale.place(to)));
            let has_failed = series_of_segment.bars.iter().any(|bar| bar.category == *category && bar.value.is_none());
            scene.group(plan.entry(*look), false, |scene| {
                if to > from {
                    area(scene, *look, (left, top), (width, bottom - top), SEAM);
                }
                if has_failed {
                    glyphs::failed(scene, (left + width / 2.0, frame.bottom() - FAILED));
                }
            });
        }
    }
}

pub(crate) fn boxes(plan: &Plan, panel: &PanelPlan, all: &[(&BoxSeries, Look)], frame: Frame, scene: &mut Scene) {
    let (Side::Names(bands), Side::Numbers(scale)) = (&panel.x, &panel.y) else { return };
    for (at, (series, look)) in all.iter().enumerate() {
        let drawn = |mark: &BoxMark, scene: &mut Scene| {
            let (left, width) = slot(bands, &mark.category, at, all.len());
            let ends = (frame.across(left), width * frame.width);
            box_mark(*look, mark, ends, |value| frame.up(scale.place(value)), scene);
        };
        scene.group(plan.entry(*look), false, |scene| series.boxes.iter().for_each(|mark| drawn(mark, scene)));
    }
}

/// Draws a box at a left edge with a width; `up` converts values to coordinates.
fn box_mark(look: Look, mark: &BoxMark, (left, width): (f64, f64), up: impl Fn(f64) -> f64, scene: &mut Scene) {
    let colour = Paint::Series(look.colour());
    let outline = Style::stroke(colour, 1.4).dash(look.dash(true));
    let middle = left + width / 2.0;
    let [low, first, median, third, high] = mark.summary.map(&up);
    if mark.is_single() && look.paper {
        scene.line((left, median), (left + width, median), outline);
        return glyphs::marker(scene, look, (middle, median));
    }
    let cap = width / 4.0;
    let whiskers = vec![
        vec![(middle, low), (middle, first)],
        vec![(middle, third), (middle, high)],
        vec![(middle - cap, low), (middle + cap, low)],
        vec![(middle - cap, high), (middle + cap, high)],
    ];
    let places = mark.outliers.iter().map(|value| (middle, up(*value))).collect();
    scene.shapes.push(Shape::Dots { places, radius: 1.7, paint: colour, opacity: 60 });
    scene.shapes.push(Shape::Path { runs: whiskers, closed: false, style: outline });
    let size = (width, (first - third).max(MIN_BAR));
    scene.rectangle((left, third), size, Style::fill(Paint::Surface));
    if !look.paper {
        scene.rectangle((left, third), size, Style::fill(colour).opacity(30));
    }
    glyphs::hatch(scene, look.hatch(), (left, third), size, colour);
    scene.rectangle((left, third), size, outline);
    scene.line((left, median), (left + width, median), Style::stroke(colour, 2.4));
}
