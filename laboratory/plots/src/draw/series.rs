//! Curves, lines, scatter plots and series over time.

use super::{Frame, glyphs, grouped, thin};
use crate::model::{Plot, Point, Series, Trace};
use crate::plan::{Look, PanelPlan, Plan, Side, step_end};
use crate::scale::Scale;
use crate::scene::{Paint, Scene, Shape, Style};

/// Maximum number of points of a series with individual markers and whiskers; with more, intervals are a band.
const MAX_MARKED: usize = 48;
/// Maximum number of markers on a line with more points than that.
const MARKERS_OF_A_LONG_LINE: usize = 8;
/// Width of a series' line, in pixels.
const LINE: f64 = 1.9;
/// Radius of the points of a scatter plot.
const DOT: f64 = 1.7;
/// Number of points of a scatter plot from which on they are drawn more transparently.
const MANY: usize = 1500;
/// Minimum width of a histogram column, and the gap between columns.
const MIN_COLUMN: f64 = 1.0;
const SEAM: f64 = 0.6;
/// Height of the signs for failed measurements above the bottom of the plot.
const FAILED: f64 = 7.0;

pub(crate) fn draw(plan: &Plan, panel: &PanelPlan, all: &[(&Series, Look)], frame: Frame, scene: &mut Scene) {
    let (Side::Numbers(x), Side::Numbers(y)) = (&panel.x, &panel.y) else { return };
    let canvas = Canvas { x, y, frame, plan };
    // Values from a paper are drawn first, so that they hide none of ours.
    let (papers, ours): (Vec<_>, Vec<_>) = all.iter().partition(|(_, look)| look.paper);
    for (series, look) in papers.into_iter().chain(ours) {
        scene.group(plan.entry(look), false, |scene| canvas.series(series, look, scene));
    }
}

struct Canvas<'a> {
    x: &'a Scale,
    y: &'a Scale,
    frame: Frame,
    plan: &'a Plan<'a>,
}

impl Canvas<'_> {
    fn series(&self, series: &Series, look: Look, scene: &mut Scene) {
        let mut points: Vec<&Point> = series.points.iter().collect();
        match self.plan.figure.plot {
            Plot::Scatter(_) => self.scatter(&points, look, scene),
            Plot::Time { .. } => self.steps(&series.points, look, scene),
            Plot::Histogram { .. } => self.columns(&series.points, look, scene),
            Plot::Line(_) => {
                points.sort_by(|one, two| one.x.total_cmp(&two.x));
                self.joined(&points, look, scene);
            }
            _ => self.joined(&points, look, scene),
        }
        for point in series.points.iter().filter(|point| point.y.is_none()) {
            glyphs::failed(scene, (self.frame.across(self.x.place(point.x)), self.frame.bottom() - FAILED));
        }
    }

    fn line(&self, look: Look) -> Style {
        let dash = look.dash(self.plan.has_markers(look.trace));
        Style::stroke(Paint::Series(look.colour()), LINE).dash(dash)
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.frame.across(self.x.place(x)), self.frame.up(self.y.place(y)))
    }

    fn joined(&self, points: &[&Point], look: Look, scene: &mut Scene) {
        let few = points.len() <= MAX_MARKED;
        if few || !look.trace.has_line() {
            self.whiskers(points, look, scene);
        } else {
            self.band(points, look, scene);
        }
        let runs = points.split(|point| point.y.is_none()).map(|run| self.places(run)).filter(|run| run.len() > 1);
        let runs: Vec<_> = runs.collect();
        if !runs.is_empty() && look.trace.has_line() {
            scene.shapes.push(Shape::Path { runs, closed: false, style: self.line(look) });
        }
        if look.trace != Trace::Line {
            // A long line has a few markers, which tell it from others.
            let every = if few || !look.trace.has_line() { 1 } else { points.len().div_ceil(MARKERS_OF_A_LONG_LINE) };
            self.places(points).into_iter().step_by(every).for_each(|place| glyphs::marker(scene, look, place));
        }
    }

    fn places(&self, points: &[&Point]) -> Vec<(f64, f64)> {
        points.iter().filter_map(|point| Some(self.at(point.x, point.y?))).collect()
    }

    fn whiskers(&self, points: &[&Point], look: Look, scene: &mut Scene) {
        for point in points {
            let Some(y) = point.y else { continue };
            let (across, up) = self.at(point.x, y);
            if let Some((low, high)) = point.y_interval {
                let ends = (self.at(point.x, low).1, self.at(point.x, high).1);
                glyphs::upright(scene, across, ends, thin(look.colour()));
            }
            if let Some((low, high)) = point.x_interval {
                let ends = (self.at(low, y).0, self.at(high, y).0);
                glyphs::lying(scene, up, ends, thin(look.colour()));
            }
        }
    }

    fn band(&self, points: &[&Point], look: Look, scene: &mut Scene) {
        let runs = points.split(|point| point.y_interval.is_none()).filter(|run| run.len() > 1);
        let outline = |run: &[&Point]| {
            let bound = |point: &&Point, upper: bool| {
                point.y_interval.map(|(low, high)| self.at(point.x, if upper { high } else { low }))
            };
            let lower = run.iter().filter_map(|point| bound(point, false));
            lower.chain(run.iter().rev().filter_map(|point| bound(point, true))).collect::<Vec<_>>()
        };
        let runs: Vec<_> = runs.map(outline).collect();
        if !runs.is_empty() {
            let style = Style::fill(Paint::Series(look.colour())).opacity(20);
            scene.shapes.push(Shape::Path { runs, closed: true, style });
        }
    }

    fn scatter(&self, points: &[&Point], look: Look, scene: &mut Scene) {
        self.whiskers(points, look, scene);
        let places = self.places(points);
        if look.paper {
            places.into_iter().for_each(|place| glyphs::marker(scene, look, place));
            return;
        }
        let opacity = if places.len() > MANY { 55 } else { 80 };
        scene.shapes.push(Shape::Dots { places, radius: DOT, paint: Paint::Series(look.colour()), opacity });
    }

    fn columns(&self, points: &[Point], look: Look, scene: &mut Scene) {
        for (at, point) in points.iter().enumerate() {
            let Some(y) = point.y else { continue };
            let ((left, top), (right, _)) = (self.at(point.x, y), self.at(step_end(points, at), y));
            let size = ((right - left).max(MIN_COLUMN), self.frame.bottom() - top);
            grouped::area(scene, look, (left, top), size, SEAM);
        }
    }

    fn steps(&self, points: &[Point], look: Look, scene: &mut Scene) {
        let mut runs: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut end = None;
        for (at, point) in points.iter().enumerate() {
            let Some(y) = point.y else {
                end = None;
                continue;
            };
            if end != Some(point.x) {
                runs.push(Vec::new());
            }
            let to = step_end(points, at);
            runs.last_mut().expect("one was just added").extend([self.at(point.x, y), self.at(to, y)]);
            end = Some(to);
        }
        if !runs.is_empty() {
            scene.shapes.push(Shape::Path { runs, closed: false, style: self.line(look) });
        }
    }
}
