//! Markers of points, and whiskers.

use crate::model::Trace;
use crate::plan::{Look, Marker};
use crate::scene::{Dash, Paint, Scene, Shape, Style};

/// Half of a marker's width.
pub(crate) const RADIUS: f64 = 3.8;
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

/// Returns the dash pattern of a series' lines.
pub(crate) fn dash(look: Look) -> Dash {
    if look.paper { Dash::Dashed } else { Dash::Solid }
}

/// Draws the sign for a failed measurement.
pub(crate) fn failed(scene: &mut Scene, place: (f64, f64)) {
    scene.cross(place, 3.5, Style::stroke(Paint::Bad, 1.8));
}
