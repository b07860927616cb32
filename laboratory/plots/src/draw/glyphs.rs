//! Markers of points, and whiskers.

use crate::model::Trace;
use crate::plan::{Hatch, Look, Marker};
use crate::scene::{Paint, Scene, Shape, Style};

/// Half of a marker's width.
pub(crate) const RADIUS: f64 = 3.8;
/// Distance and width of the lines of a hatched area.
const HATCH_STEP: f64 = 5.0;
const HATCH_LINE: f64 = 0.9;
/// Half of the bar across the end of a whisker.
const CAP: f64 = 3.0;

/// Draws the marker of a series: filled, or hollow for values from a paper and for measurements of another kind.
pub(crate) fn marker(scene: &mut Scene, look: Look, (x, y): (f64, f64)) {
    let colour = Paint::Series(look.colour());
    let style = match look.paper || look.trace == Trace::Hollow {
        true => Style::fill(Paint::Surface).outlined(colour, 1.5),
        false => Style::fill(colour).outlined(Paint::Surface, 0.8),
    };
    let corners = match look.marker() {
        Marker::Circle => {
            scene.shapes.push(Shape::Circle { x, y, radius: RADIUS, style });
            return;
        }
        Marker::Square => {
            let half = RADIUS * 0.9;
            return scene.rectangle((x - half, y - half), (2.0 * half, 2.0 * half), style);
        }
        // Scaled so that each marker looks as large as the circle.
        Marker::Triangle => regular(3, 1.3, -90.0),
        Marker::TriangleDown => regular(3, 1.3, 90.0),
        Marker::Diamond => regular(4, 1.25, 0.0),
        Marker::Pentagon => regular(5, 1.15, -90.0),
    };
    let run = corners.into_iter().map(|(right, down)| (x + right, y + down)).collect();
    scene.shapes.push(Shape::Path { runs: vec![run], closed: true, style });
}

fn regular(corners: usize, scale: f64, first: f64) -> Vec<(f64, f64)> {
    let corner = |at: usize| {
        let angle = (first + 360.0 * at as f64 / corners as f64).to_radians();
        (RADIUS * scale * angle.cos(), RADIUS * scale * angle.sin())
    };
    (0..corners).map(corner).collect()
}

/// Draws an interval along the vertical axis.
pub(crate) fn upright(scene: &mut Scene, x: f64, (from, to): (f64, f64), style: Style) {
    let runs =
        vec![vec![(x, from), (x, to)], vec![(x - CAP, from), (x + CAP, from)], vec![(x - CAP, to), (x + CAP, to)]];
    scene.shapes.push(Shape::Path { runs, closed: false, style });
}

/// Draws an interval along the horizontal axis.
pub(crate) fn lying(scene: &mut Scene, y: f64, (from, to): (f64, f64), style: Style) {
    let runs =
        vec![vec![(from, y), (to, y)], vec![(from, y - CAP), (from, y + CAP)], vec![(to, y - CAP), (to, y + CAP)]];
    scene.shapes.push(Shape::Path { runs, closed: false, style });
}

/// Draws the lines of a hatched area.
pub(crate) fn hatch(scene: &mut Scene, hatch: Hatch, place: (f64, f64), size: (f64, f64), paint: Paint) {
    let (rising, upright) = (diagonals(size), lines(size.0));
    let lying = || lines(size.1).map(|y| vec![(0.0, y), (size.0, y)]).collect();
    let flipped = |runs: &[Vec<(f64, f64)>]| -> Vec<Vec<(f64, f64)>> {
        runs.iter().map(|run| run.iter().map(|(x, y)| (*x, size.1 - y)).collect()).collect()
    };
    let runs = match hatch {
        Hatch::Plain => return,
        Hatch::Falling => flipped(&rising),
        Hatch::Crossed => flipped(&rising).into_iter().chain(rising).collect(),
        Hatch::Rising => rising,
        Hatch::Lying => lying(),
        Hatch::Upright => upright.map(|x| vec![(x, 0.0), (x, size.1)]).collect(),
    };
    let moved = |run: Vec<(f64, f64)>| run.into_iter().map(|(x, y)| (place.0 + x, place.1 + y)).collect();
    let runs: Vec<Vec<(f64, f64)>> = runs.into_iter().map(moved).collect();
    if !runs.is_empty() {
        scene.shapes.push(Shape::Path { runs, closed: false, style: Style::stroke(paint, HATCH_LINE) });
    }
}

fn lines(length: f64) -> impl Iterator<Item = f64> {
    let count = (length / HATCH_STEP).floor().max(0.0) as usize;
    (0..count).map(|at| (at as f64 + 0.5) * HATCH_STEP)
}

/// Returns lines that rise from left to right, clipped to an area of this size.
fn diagonals((width, height): (f64, f64)) -> Vec<Vec<(f64, f64)>> {
    let line = |along: f64| {
        let from = along - height;
        let (left, right) = (from.max(0.0), along.min(width));
        vec![(left, height - (left - from)), (right, height - (right - from))]
    };
    lines(width + height).map(line).collect()
}

/// Draws the sign for a failed measurement.
pub(crate) fn failed(scene: &mut Scene, place: (f64, f64)) {
    scene.cross(place, 3.5, Style::stroke(Paint::Bad, 1.8));
}
