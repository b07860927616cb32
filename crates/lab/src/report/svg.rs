//! Small charts as inline SVG: axes, lines, bars and marks. Colours and fonts come from the style sheet of the page.
//!
//! The crate kuva 0.6 was rejected: it has 95,000 lines and adds 25 s to a release build on two shared cores, for four
//! charts. It also lacks style-sheet variables, which let a chart follow the reader's light or dark setting.

use super::html::escape;
use std::fmt::Write;

/// Space left of the plot, for the numbers of the vertical axis.
const LEFT: f64 = 52.0;
/// Space right of the plot, for half of the last number.
const RIGHT: f64 = 18.0;
/// Space below the plot, for the numbers and the name of the axis.
const BOTTOM: f64 = 44.0;
/// Space above the plot, without mark labels.
const TOP: f64 = 12.0;
/// Height of a mark label.
const LABEL: f64 = 17.0;
/// Minimum width of a chart with named marks; on narrower charts they are numbered.
const WIDE: f64 = 560.0;
/// Maximum length in bytes of the names that narrow charts show too.
const SHORT: usize = 6;
/// Maximum rows of names above a chart; marks are numbered if more are needed.
const MAX_NAMED_ROWS: usize = 2;
/// Approximate width of a character of a label.
const CHARACTER: f64 = 6.4;

/// Axis of a chart.
pub struct Axis {
    /// Quantity with its unit.
    pub name: String,
    /// From left to right or bottom to top.
    pub range: (f64, f64),
    /// Whether the scale is logarithmic.
    pub log: bool,
    /// Values and their labels.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Creates an axis from 0 to a round number at or above `most`, with about `count` ticks.
    pub fn linear(name: &str, most: f64, count: usize, text: impl Fn(f64) -> String) -> Axis {
        let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        let step = round_step(most / count.max(1) as f64);
        let steps = (most / step - 1e-9).ceil().max(1.0) as usize;
        let ticks = (0..=steps).map(|at| at as f64 * step).map(|value| (value, text(value))).collect();
        Axis { name: name.into(), range: (0.0, steps as f64 * step), log: false, ticks }
    }

    /// Creates an axis from 0 to exactly `most`, with at most about `count` round ticks.
    pub fn exact(name: &str, most: f64, count: usize, text: impl Fn(f64) -> String) -> Axis {
        let mut axis = Axis::linear(name, most, count, text);
        axis.range.1 = most;
        axis.ticks.retain(|(value, _)| *value <= most);
        axis
    }

    /// Creates a logarithmic axis, with ticks at 1, 2 and 5 times each power of ten, or fewer on a wide range.
    pub fn log(name: &str, least: f64, most: f64, text: impl Fn(f64) -> String) -> Axis {
        let (low, high) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        let digits: &[f64] = match most / least {
            ratio if ratio > 3000.0 => &[1.0],
            ratio if ratio > 4.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        };
        let all = (low..=high).flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
        let inside = all.filter(|value| *value >= least * 0.999 && *value <= most * 1.001);
        Axis {
            name: name.into(),
            range: (least, most),
            log: true,
            ticks: inside.map(|value| (value, text(value))).collect(),
        }
    }

    /// Returns the position of a value on the axis, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let scale = |v: f64| if self.log { v.max(f64::MIN_POSITIVE).log10() } else { v };
        let (from, to) = (scale(self.range.0), scale(self.range.1));
        if to > from { ((scale(value) - from) / (to - from)).clamp(0.0, 1.0) } else { 0.5 }
    }
}

/// Returns 1, 2, 2.5, 5 or 10 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|digit| digit * power >= least * (1.0 - 1e-9));
    digit.unwrap_or(10.0) * power
}

/// Line through points, with a gap at each missing value.
pub struct Line {
    /// CSS class for the colour.
    pub class: &'static str,
    /// Whether the area below is filled.
    pub area: bool,
    /// From left to right.
    pub points: Vec<(f64, Option<f64>)>,
}

/// Bar of a histogram.
pub struct Bar {
    /// Left and right edge.
    pub range: (f64, f64),
    pub value: f64,
}

/// Vertical line at a named position.
pub struct Mark {
    pub at: f64,
    pub text: String,
    /// Shown instead of the name if there is not enough space.
    pub number: String,
    /// CSS class for the colour.
    pub class: &'static str,
}

/// Tooltip of a column of the chart.
pub struct Hover {
    /// Left and right edge.
    pub range: (f64, f64),
    pub text: String,
}

/// Chart that can be rendered at any size.
pub struct Chart {
    /// Description for readers who cannot see the chart.
    pub summary: String,
    pub x: Axis,
    pub y: Axis,
    /// Drawn in this order, above the bars.
    pub lines: Vec<Line>,
    /// Drawn first.
    pub bars: Vec<Bar>,
    /// Drawn last.
    pub marks: Vec<Mark>,
    pub hovers: Vec<Hover>,
}

struct Frame<'a> {
    chart: &'a Chart,
    width: f64,
    height: f64,
    top: f64,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> f64 {
        LEFT + self.chart.x.place(value) * (self.width - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom() - self.chart.y.place(value) * (self.bottom() - self.top)
    }

    fn bottom(&self) -> f64 {
        self.height - BOTTOM
    }
}

impl Chart {
    /// Renders an SVG element of `width` by `height` units.
    pub fn render(&self, width: f64, height: f64) -> String {
        let rows = mark_rows(self, width);
        let top = TOP + LABEL * rows.iter().map(|(row, _)| row + 1).max().unwrap_or(0) as f64;
        let frame = Frame { chart: self, width, height, top };
        let mut svg =
            format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">", escape(&self.summary));
        draw_axes(&frame, &mut svg);
        for bar in &self.bars {
            let (left, right) = (frame.x(bar.range.0), frame.x(bar.range.1));
            let y = frame.y(bar.value);
            let (width, height) = ((right - left - 1.0).max(1.0), frame.bottom() - y);
            if bar.value > 0.0 {
                let (y, height) = if height < 1.5 { (frame.bottom() - 1.5, 1.5) } else { (y, height) };
                let _ = write!(
                    svg,
                    "<rect class=\"bar\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>",
                    left + 0.5
                );
            }
        }
        for line in &self.lines {
            draw_line(&frame, line, &mut svg);
        }
        for (mark, (row, _)) in self.marks.iter().zip(&rows) {
            draw_mark(&frame, mark, *row, &mut svg);
        }
        // After all lines, so that no line crosses a label.
        for (mark, (row, text)) in self.marks.iter().zip(&rows) {
            draw_label(&frame, mark, *row, text, &mut svg);
        }
        for hover in &self.hovers {
            let (left, right) = (frame.x(hover.range.0), frame.x(hover.range.1));
            let (width, height) = ((right - left).max(0.5), frame.bottom() - top);
            let _ = write!(
                svg,
                "<rect class=\"hover\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">\
                 <title>{}</title></rect>",
                escape(&hover.text)
            );
        }
        svg.push_str("</svg>");
        svg
    }
}

/// Returns the row and text of each mark's label: its name, or its number if names would take too much space.
fn mark_rows(chart: &Chart, width: f64) -> Vec<(usize, String)> {
    let short = chart.marks.iter().all(|mark| mark.text.len() <= SHORT);
    let named = (width >= WIDE || short).then(|| label_rows(chart, width, true));
    named
        .filter(|rows| rows.iter().all(|(row, _)| *row < MAX_NAMED_ROWS))
        .unwrap_or_else(|| label_rows(chart, width, false))
}

/// Places the labels in rows, from the bottom up, so that none overlap.
fn label_rows(chart: &Chart, width: f64, named: bool) -> Vec<(usize, String)> {
    let mut ends: Vec<Vec<(f64, f64)>> = Vec::new();
    let place = |mark: &Mark| LEFT + chart.x.place(mark.at) * (width - LEFT - RIGHT);
    let labels = chart.marks.iter().map(|mark| {
        let text = if named { mark.text.clone() } else { mark.number.clone() };
        let extent = label_width(&text);
        let left = label_left(place(mark), extent, width);
        let free = |row: &Vec<(f64, f64)>| row.iter().all(|(from, to)| left > *to || left + extent < *from);
        let row = ends.iter().position(free).unwrap_or_else(|| {
            ends.push(Vec::new());
            ends.len() - 1
        });
        ends[row].push((left, left + extent));
        (row, text)
    });
    labels.collect()
}

fn label_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER + 10.0
}

/// Returns the left edge of a label that is centred over its mark, but within the chart.
fn label_left(x: f64, extent: f64, width: f64) -> f64 {
    (x - extent / 2.0).min(width - 2.0 - extent).max(LEFT - 4.0)
}

fn draw_axes(frame: &Frame, svg: &mut String) {
    let (right, bottom) = (frame.width - RIGHT, frame.bottom());
    for (value, text) in &frame.chart.y.ticks {
        let y = frame.y(*value);
        let class = if *value == frame.chart.y.range.0 { "axis" } else { "grid" };
        let _ = write!(svg, "<path class=\"{class}\" d=\"M{LEFT} {y:.1}H{right:.1}\"/>");
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            escape(text)
        );
    }
    let mut free = f64::MIN;
    for (value, text) in &frame.chart.x.ticks {
        let x = frame.x(*value);
        let half = text.chars().count() as f64 * CHARACTER / 2.0 + 8.0;
        if x - half < free {
            continue;
        }
        free = x + half;
        let _ = write!(svg, "<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\"/>");
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            escape(text)
        );
    }
    let name = escape(&frame.chart.x.name);
    let _ = write!(
        svg,
        "<text class=\"name\" x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
        frame.height - 6.0
    );
}

fn draw_line(frame: &Frame, line: &Line, svg: &mut String) {
    let runs = line.points.split(|(_, value)| value.is_none());
    for run in runs.filter(|run| !run.is_empty()) {
        let place =
            |(x, y): &(f64, Option<f64>)| format!("{:.1} {:.1}", frame.x(*x), frame.y(y.expect("split at gaps")));
        let path = run.iter().map(place).collect::<Vec<_>>().join("L");
        let (first, last) = (frame.x(run[0].0), frame.x(run[run.len() - 1].0));
        if line.area {
            let bottom = frame.bottom();
            let _ = write!(
                svg,
                "<path class=\"area {}\" d=\"M{first:.1} {bottom:.1}L{path}L{last:.1} {bottom:.1}Z\"/>",
                line.class
            );
        }
        // A path of one point needs a length, or its round ends would not show.
        let tail = if run.len() == 1 { "h0.1" } else { "" };
        let _ = write!(svg, "<path class=\"line {}\" d=\"M{path}{tail}\"/>", line.class);
    }
}

/// Returns the baseline of the labels in a row.
fn label_foot(frame: &Frame, row: usize) -> f64 {
    frame.top - 6.0 - LABEL * row as f64
}

fn draw_mark(frame: &Frame, mark: &Mark, row: usize, svg: &mut String) {
    let (x, y) = (frame.x(mark.at), label_foot(frame, row));
    let _ = write!(svg, "<path class=\"mark {}\" d=\"M{x:.1} {:.1}V{:.1}\"/>", mark.class, y + 4.0, frame.bottom());
}

fn draw_label(frame: &Frame, mark: &Mark, row: usize, text: &str, svg: &mut String) {
    let (x, y) = (frame.x(mark.at), label_foot(frame, row));
    let extent = label_width(text);
    let left = label_left(x, extent, frame.width) + extent / 2.0;
    let _ = write!(
        svg,
        "<rect class=\"plate\" x=\"{:.1}\" y=\"{:.1}\" width=\"{extent:.1}\" height=\"{LABEL:.1}\"/>",
        left - extent / 2.0,
        y - LABEL + 4.0
    );
    let _ = write!(
        svg,
        "<text class=\"label {}\" x=\"{left:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
        mark.class,
        escape(text)
    );
}
