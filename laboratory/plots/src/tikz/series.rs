//! Curves, lines, scatter plots, series over time and histograms.

use std::fmt::Write;

use super::escape::{escape, remark};
use super::{Writer, ends, line, number, shown};
use crate::model::{Plot, Point, Series, Trace};
use crate::plan::{Look, PanelPlan, Side, step_end};
use crate::scale::Scale;

/// Number of points from which on a joined line has only some markers, and their number.
const MAX_MARKED: usize = 48;
const MARKERS_OF_A_LONG_LINE: usize = 8;

impl Writer<'_> {
    pub(super) fn series(&mut self, panel: &PanelPlan, all: &[(&Series, Look)]) {
        let (Side::Numbers(x), Side::Numbers(y)) = (&panel.x, &panel.y) else { return };
        self.events(x, y);
        // Values from a paper are drawn first, so that they hide none of ours.
        let (papers, ours): (Vec<_>, Vec<_>) = all.iter().partition(|(_, look)| look.paper);
        for (series, look) in papers.into_iter().chain(ours) {
            let mut points: Vec<&Point> = series.points.iter().collect();
            let name = crate::plan::shown_name(&series.name, series.paper);
            if !name.is_empty() {
                line!(self, "% {}", remark(&name));
            }
            match self.plan.figure.plot {
                Plot::Time { .. } => self.steps(&series.points, look, x, y),
                Plot::Histogram { .. } => self.columns(&series.points, look, x, y),
                Plot::Line(_) => {
                    points.sort_by(|one, two| one.x.total_cmp(&two.x));
                    self.joined(&points, look, x, y);
                }
                _ => self.joined(&points, look, x, y),
            }
            self.failures(&points, x, y);
        }
    }

    fn joined(&mut self, points: &[&Point], look: Look, x: &Scale, y: &Scale) {
        let has_x = points.iter().any(|point| point.x_interval.is_some());
        let has_y = points.iter().any(|point| point.y_interval.is_some());
        let mut options = vec![self.style(look)];
        if points.len() > MAX_MARKED
            && look.trace == Trace::Joined
            && !matches!(self.plan.figure.plot, Plot::Scatter(_))
        {
            options.push(format!("mark repeat={}", points.len().div_ceil(MARKERS_OF_A_LONG_LINE)));
        }
        let (mut names, mut columns) = ("x y".to_owned(), "x=x, y=y".to_owned());
        for (axis, has) in [('x', has_x), ('y', has_y)] {
            if has {
                options.push(format!("error bars/{axis} dir=both, error bars/{axis} explicit"));
                let _ = write!(names, " {axis}minus {axis}plus");
                let _ = write!(columns, ", {axis} error minus={axis}minus, {axis} error plus={axis}plus");
            }
        }
        if has_x || has_y {
            options.push("error bars/error bar style={solid, line width=0.8bp}".into());
        }
        line!(self, "\\addplot[{}, forget plot] table[{columns}, row sep=\\\\] {{", options.join(", "));
        line!(self, "  {names} \\\\");
        for point in points {
            let across = shown(x, point.x);
            let Some(up) = point.y.map(|up| shown(y, up)) else {
                let rest = " 0 0".repeat(usize::from(has_x) + usize::from(has_y));
                line!(self, "  {} nan{rest} \\\\", number(across));
                continue;
            };
            let mut row = format!("  {} {}", number(across), number(up));
            for (has, interval, scale, value) in
                [(has_x, point.x_interval, x, across), (has_y, point.y_interval, y, up)]
            {
                if has {
                    let (low, high) = interval.map_or((value, value), |(low, high)| (shown(scale, low), high));
                    let _ = write!(row, " {} {}", number(value - low), number(high - value));
                }
            }
            line!(self, "{row} \\\\");
        }
        line!(self, "}};");
    }

    fn steps(&mut self, points: &[Point], look: Look, x: &Scale, y: &Scale) {
        line!(self, "\\addplot[{}, const plot, forget plot] table[x=x, y=y, row sep=\\\\] {{", self.style(look));
        line!(self, "  x y \\\\");
        for (at, point) in points.iter().enumerate() {
            let (from, to) = (number(shown(x, point.x)), number(shown(x, step_end(points, at))));
            let Some(up) = point.y.map(|up| number(shown(y, up))) else {
                line!(self, "  {from} nan \\\\");
                continue;
            };
            line!(self, "  {from} {up} \\\\");
            let is_followed = points.get(at + 1).is_some_and(|next| next.x == step_end(points, at));
            if !is_followed {
                line!(self, "  {to} {up} \\\\");
                line!(self, "  {to} nan \\\\");
            }
        }
        line!(self, "}};");
    }

    fn columns(&mut self, points: &[Point], look: Look, x: &Scale, y: &Scale) {
        line!(
            self,
            "\\addplot[{}, ybar interval, x tick label as interval=false, forget plot]\n  table[x=x, y=y, row \
             sep=\\\\] {{",
            self.style(look)
        );
        line!(self, "  x y \\\\");
        for (at, point) in points.iter().enumerate() {
            let up = number(shown(y, point.y.unwrap_or(0.0)));
            line!(self, "  {} {up} \\\\", number(shown(x, point.x)));
            let end = step_end(points, at);
            if points.get(at + 1).is_none_or(|next| next.x != end) {
                line!(self, "  {} {} \\\\", number(shown(x, end)), number(ends(y).0.max(0.0)));
            }
        }
        line!(self, "}};");
    }

    fn failures(&mut self, points: &[&Point], x: &Scale, y: &Scale) {
        for point in points.iter().filter(|point| point.y.is_none()) {
            let why = point.hover.rows.iter().find(|(name, _)| name == "failed");
            let why = why.map_or_else(String::new, |(_, why)| format!(": {}", remark(why)));
            let (across, up) = (number(shown(x, point.x)), number(ends(y).0));
            self.failed(&across, &up, &why);
        }
    }

    fn events(&mut self, x: &Scale, y: &Scale) {
        let (low, high) = (number(ends(y).0), number(ends(y).1));
        for event in self.plan.events {
            let (from, label) = (number(shown(x, event.from)), escape(&event.label));
            if let Some(to) = event.to {
                let to = number(shown(x, to));
                line!(
                    self,
                    "\\fill[quorate event, opacity=0.12] (axis cs:{from},{low}) rectangle (axis cs:{to},{high});"
                );
            }
            line!(
                self,
                "\\draw[quorate event, dotted, thick] (axis cs:{from},{low}) -- (axis cs:{from},{high}) \
                 node[pos=1, rotate=90, anchor=north east, inner sep=1pt] {{{label}}};"
            );
        }
    }
}
