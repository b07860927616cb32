//! Writes a figure as a TikZ picture for pgfplots: values as tables, and the sizes, ticks and colours of the drawing.
//!
//! Rows end with `\\` rather than with the line, so that the picture works in the argument of a macro too.

mod categories;
mod escape;
mod series;

use std::fmt::Write;

use crate::Width;
use crate::draw::Drawing;
use crate::model::{Plot, Trace};
use crate::palette::LIGHT;
use crate::plan::{Content, Hatch, Look, Marker, PanelPlan, Plan, Side};
use crate::scale::{Bands, Scale, ZERO_PART};
use crate::scene::Paint;
use crate::svg::PIXELS_PER_POINT;
use crate::text;
use escape::{escape, remark};

/// Packages that a document needs.
const PACKAGES: &str = "\\usepackage{pgfplots} \\pgfplotsset{compat=1.16} \\usepgfplotslibrary{groupplots,statistics} \
                        \\usetikzlibrary{patterns}";
/// Millimetres per point of 1/72 inch.
const MM_PER_POINT: f64 = 25.4 / 72.0;
/// Font size in points, as in the other formats.
const FONT_POINTS: f64 = 8.0;
/// Width of a line sample and the spaces around a name in the legend, in points.
const SAMPLE_POINTS: f64 = 34.0;

/// Picture in the making.
struct Writer<'p> {
    plan: &'p Plan<'p>,
    /// The distinct looks, in the order of their first series.
    looks: Vec<Look>,
    tex: String,
}

/// Writes a line of the picture.
macro_rules! line {
    ($writer:expr, $($text:tt)*) => {
        let _ = writeln!($writer.tex, $($text)*);
    };
}
use line;

/// Writes the picture of a planned figure.
pub(crate) fn picture(plan: &Plan, drawing: &Drawing, width: Width) -> String {
    let mut writer = Writer { plan, looks: looks(plan), tex: String::new() };
    writer.head(width);
    line!(writer, "\\begin{{tikzpicture}}[font=\\fontsize{{{FONT_POINTS}bp}}{{{}bp}}\\selectfont]", FONT_POINTS * 1.2);
    writer.colours();
    writer.styles();
    writer.group(drawing);
    for (at, panel) in plan.panels.iter().enumerate() {
        writer.panel(panel, at, drawing);
    }
    line!(writer, "\\end{{groupplot}}");
    line!(writer, "\\end{{tikzpicture}}");
    writer.tex
}

fn looks(plan: &Plan) -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    for panel in &plan.panels {
        let own: Vec<Look> = match &panel.content {
            Content::Series(all) => all.iter().map(|(_, look)| *look).collect(),
            Content::Bars(all) | Content::Stacked(all) => all.iter().map(|(_, look)| *look).collect(),
            Content::Boxes(all) => all.iter().map(|(_, look)| *look).collect(),
            Content::Heat(_) => Vec::new(),
        };
        for look in own {
            if !looks.contains(&look) {
                looks.push(look);
            }
        }
    }
    looks
}

/// Formats a value for TeX.
fn number(value: f64) -> String {
    let value = value + 0.0;
    match value.abs() {
        0.0 => "0".into(),
        size if (1e-4..1e7).contains(&size) => format!("{value}"),
        _ => format!("{value:e}"),
    }
}

/// Formats a length of the drawing in points, with two decimals.
fn points(pixels: f64) -> String {
    format!("{}bp", ((pixels / PIXELS_PER_POINT * 100.0).round() / 100.0) + 0.0)
}

/// Returns the value that stands for `value` on a scale: a logarithmic one has no 0.
fn shown(scale: &Scale, value: f64) -> f64 {
    if scale.zero && value <= 0.0 { scale.stand_in() } else { value }
}

/// Returns the ends of a scale, including the place for 0.
fn ends(scale: &Scale) -> (f64, f64) {
    (if scale.zero { scale.stand_in() } else { scale.low }, scale.high)
}

impl Writer<'_> {
    fn head(&mut self, width: Width) {
        let figure = self.plan.figure;
        let (columns, mm) = match width {
            Width::Column => ("one column", width.points() * MM_PER_POINT),
            Width::Text => ("two columns", width.points() * MM_PER_POINT),
        };
        line!(self, "% {}", remark(&figure.title));
        line!(self, "% Preamble: {PACKAGES}");
        line!(self, "% Use: \\input{{{}.tex}}, unscaled; {mm:.1} mm wide, {columns}.", figure.id);
        if !figure.caption.is_empty() {
            line!(self, "% Caption: {}", remark(&figure.caption));
        }
    }

    fn colours(&mut self) {
        let rgb = |paint: Paint| LIGHT.rgb(paint).map(|channel| channel.to_string()).join(",");
        let mut named: Vec<(String, Paint)> = vec![
            ("quorate ink".into(), Paint::Ink),
            ("quorate grid".into(), Paint::Grid),
            ("quorate event".into(), Paint::Event),
            ("quorate bad".into(), Paint::Bad),
        ];
        let mut used: Vec<usize> = self.looks.iter().map(|look| look.colour()).collect();
        used.sort_unstable();
        used.dedup();
        named.extend(used.into_iter().map(|at| (format!("quorate {at}"), Paint::Series(at))));
        for (name, paint) in named {
            line!(self, "\\definecolor{{{name}}}{{RGB}}{{{}}}", rgb(paint));
        }
        if self.plan.heat.is_some() {
            let stops: String = crate::palette::HEAT.iter().map(|[r, g, b]| format!(" rgb255=({r},{g},{b})")).collect();
            line!(self, "\\pgfplotsset{{colormap={{quorate}}{{{stops} }}}}");
        }
    }

    fn styles(&mut self) {
        let areas = self.has_areas();
        for (at, look) in self.looks.clone().into_iter().enumerate() {
            let style = if areas { area_style(look) } else { line_style(self.plan, look) };
            line!(self, "\\pgfplotsset{{quorate series {at}/.style={{{style}}}}}");
        }
    }

    fn has_areas(&self) -> bool {
        matches!(self.plan.figure.plot, Plot::Bars(_) | Plot::Stacked(_) | Plot::Boxes(_) | Plot::Histogram { .. })
    }

    /// Returns the name of a look's style.
    fn style(&self, look: Look) -> String {
        let at = self.looks.iter().position(|known| *known == look).expect("every look was collected");
        format!("quorate series {at}")
    }

    fn group(&mut self, drawing: &Drawing) {
        let frames = &drawing.frames;
        let first = frames[0];
        let columns = frames.iter().take_while(|frame| frame.y == first.y).count();
        let rows = frames.len().div_ceil(columns);
        let across = frames.get(1).filter(|_| columns > 1).map_or(0.0, |next| next.x - first.right());
        let down = frames.get(columns).map_or(0.0, |below| below.y - first.bottom());
        line!(self, "\\begin{{groupplot}}[");
        line!(
            self,
            "  group style={{group size={columns} by {rows}, horizontal sep={}, vertical sep={}}},",
            points(across),
            points(down)
        );
        line!(self, "  scale only axis, width={}, height={},", points(first.width), points(first.height));
        line!(
            self,
            "  axis lines*=left, tick align=outside, scaled ticks=false, clip mode=individual, unbounded coords=jump,"
        );
        line!(
            self,
            "  major grid style={{quorate grid}}, every axis title/.append style={{font=\\bfseries, yshift=-4bp}},"
        );
        line!(self, "  legend cell align=left, error bars/error mark options={{rotate=90, mark size=2bp}},");
        line!(self, "]");
    }

    fn panel(&mut self, panel: &PanelPlan, at: usize, drawing: &Drawing) {
        let frames = &drawing.frames;
        let columns = frames.iter().take_while(|frame| frame.y == frames[0].y).count();
        let mut options: Vec<String> = Vec::new();
        if !panel.title.is_empty() {
            options.push(format!("title={{{}}}", escape(panel.title)));
        }
        options.extend(side_options('x', &panel.x, frames[at].width));
        options.extend(side_options('y', &panel.y, f64::INFINITY));
        if at + columns >= self.plan.panels.len() {
            options.push(format!("xlabel={{{}}}", escape(&self.plan.figure.x.title())));
        }
        if at.is_multiple_of(columns) || panel.own_y {
            options.push(format!("ylabel={{{}}}", escape(&panel.y_axis.title())));
        }
        options.extend(self.content_options(panel, at, frames[at].width));
        if at == 0 {
            options.extend(self.legend_options(drawing.scene.width));
        }
        for (axis, side) in [("horizontal", &panel.x), ("vertical", &panel.y)] {
            if matches!(side, Side::Numbers(scale) if scale.zero) {
                let part = ZERO_PART * 100.0;
                line!(self, "% 0 stands before the break of the {axis} axis, which is its first {part} percent.");
            }
        }
        line!(self, "\\nextgroupplot[\n  {}]", options.join(",\n  "));
        if at == 0 {
            self.legend();
        }
        match &panel.content {
            Content::Series(all) => self.series(panel, all),
            Content::Bars(all) => self.bars(panel, all),
            Content::Stacked(all) => self.stacked(panel, all),
            Content::Boxes(all) => self.boxes(panel, all),
            Content::Heat(heat) => self.heat(heat),
        }
        self.breaks(panel);
    }

    /// Marks the breaks of axes with a place for 0.
    fn breaks(&mut self, panel: &PanelPlan) {
        let start = |side: &Side| match side {
            Side::Numbers(scale) => number(ends(scale).0),
            Side::Names(_) => "-0.5".into(),
        };
        let between = |side: &Side| match side {
            Side::Numbers(scale) if scale.zero => Some(number((scale.stand_in() * scale.low).sqrt())),
            _ => None,
        };
        let places = [between(&panel.x).map(|x| (x, start(&panel.y))), between(&panel.y).map(|y| (start(&panel.x), y))];
        for (x, y) in places.into_iter().flatten() {
            line!(self, "\\node[fill=white, inner sep=0.5pt] at (axis cs:{x},{y}) {{$/\\!\\!/$}};");
        }
    }

    fn legend_options(&self, width: f64) -> Vec<String> {
        let names = self.plan.legend.iter().map(|entry| text::width(&entry.name, FONT_POINTS, false));
        let widest = names.fold(0.0, f64::max) + SAMPLE_POINTS;
        let columns = ((width / PIXELS_PER_POINT / widest).floor() as usize).clamp(1, self.plan.legend.len().max(1));
        let lift = if self.plan.panels.iter().any(|panel| !panel.title.is_empty()) { 18 } else { 6 };
        match self.plan.legend.is_empty() {
            true => Vec::new(),
            false => vec![
                format!("legend columns={columns}"),
                format!(
                    "legend style={{at={{(0,1)}}, anchor=south west, yshift={lift}bp, draw=none, fill=none, \
                     /tikz/every even column/.append style={{column sep=6bp}}}}"
                ),
            ],
        }
    }

    /// Draws the sign for a failed measurement; `why` may be empty.
    fn failed(&mut self, across: &str, up: &str, why: &str) {
        line!(self, "\\addplot[only marks, mark=x, mark size=3bp, very thick, quorate bad, forget plot]");
        line!(self, "  coordinates {{({across},{up})}}; % failed{why}");
    }

    fn legend(&mut self) {
        let areas = if self.has_areas() { "area legend, " } else { "" };
        for entry in self.plan.legend.clone() {
            line!(self, "\\addlegendimage{{{areas}{}}}", self.style(entry.look));
            line!(self, "\\addlegendentry{{{}}}", escape(&entry.name));
        }
    }
}

/// Returns the options of an axis; `prefix` is `x` or `y`.
fn side_options(prefix: char, side: &Side, length: f64) -> Vec<String> {
    match side {
        Side::Numbers(scale) => number_options(prefix, scale),
        Side::Names(bands) => name_options(prefix, bands, length),
    }
}

fn number_options(prefix: char, scale: &Scale) -> Vec<String> {
    let (low, high) = ends(scale);
    let list = |labelled: bool| {
        let ticks = scale.ticks.iter().filter(|tick| tick.label.is_empty() != labelled);
        ticks.map(|tick| number(shown(scale, tick.value))).collect::<Vec<_>>().join(",")
    };
    let labels = scale.ticks.iter().filter(|tick| !tick.label.is_empty());
    let labels: Vec<String> = labels.map(|tick| format!("{{{}}}", escape(&tick.label))).collect();
    let mut options = vec![
        format!("{prefix}min={}, {prefix}max={}, {prefix}majorgrids", number(low), number(high)),
        format!("{prefix}tick={{{}}}, {prefix}ticklabels={{{}}}", list(true), labels.join(",")),
    ];
    if scale.log {
        options.insert(0, format!("{prefix}mode=log"));
        options.push(format!("minor {prefix}tick={{{}}}", list(false)));
    }
    options
}

fn name_options(prefix: char, bands: &Bands, length: f64) -> Vec<String> {
    let count = bands.names.len().max(1);
    let places: Vec<String> = (0..bands.names.len()).map(|at| at.to_string()).collect();
    let labels: Vec<String> = bands.names.iter().map(|name| format!("{{{}}}", escape(name))).collect();
    let widest = bands.names.iter().map(|name| text::width(name, crate::draw::SIZE, false)).fold(0.0, f64::max);
    let mut options = vec![
        format!("{prefix}min=-0.5, {prefix}max={}", number(count as f64 - 0.5)),
        format!("{prefix}tick={{{}}}, {prefix}ticklabels={{{}}}", places.join(","), labels.join(",")),
    ];
    if widest > length / count as f64 {
        options.push(format!("{prefix} tick label style={{rotate=40, anchor=north east, inner sep=1pt}}"));
    }
    options
}

fn line_style(plan: &Plan, look: Look) -> String {
    let colour = format!("quorate {}", look.colour());
    let is_dots = matches!(plan.figure.plot, Plot::Scatter(_)) && !look.paper;
    if is_dots {
        return format!("only marks, mark=*, mark size=0.9bp, {colour}, opacity=0.7");
    }
    let has_markers = plan.has_markers(look.trace);
    let dash = dash_pattern(look.dash(has_markers).lengths());
    let has_line = look.trace.has_line() && !matches!(plan.figure.plot, Plot::Scatter(_));
    let line = if has_line { format!("line width=1.2bp{dash}") } else { "only marks".into() };
    if !has_markers {
        return format!("{colour}, {line}, mark=none");
    }
    let fill = match look.paper || look.trace == Trace::Hollow {
        true => "white".to_owned(),
        false => colour.clone(),
    };
    let (mark, turn) = match look.marker() {
        Marker::Circle => ("*", ""),
        Marker::Square => ("square*", ""),
        Marker::Triangle => ("triangle*", ""),
        Marker::Diamond => ("diamond*", ""),
        Marker::TriangleDown => ("triangle*", ", rotate=180"),
        Marker::Pentagon => ("pentagon*", ""),
    };
    format!("{colour}, {line}, mark={mark}, mark size=2.2bp, mark options={{solid, fill={fill}{turn}}}")
}

fn dash_pattern(lengths: &[f64]) -> String {
    let parts = lengths.chunks(2).map(|pair| format!("on {} off {}", points(pair[0]), points(pair[1])));
    match lengths.is_empty() {
        true => String::new(),
        false => format!(", dash pattern={}", parts.collect::<Vec<_>>().join(" ")),
    }
}

fn area_style(look: Look) -> String {
    let colour = format!("quorate {}", look.colour());
    let (fill, lines) = match (look.paper, look.repeats_a_colour()) {
        (true, _) => ("white".to_owned(), colour.clone()),
        (false, true) => (format!("{colour}!35!white"), colour.clone()),
        (false, false) => (colour.clone(), "white".to_owned()),
    };
    let pattern = match look.hatch() {
        Hatch::Plain => None,
        Hatch::Rising => Some("north east lines"),
        Hatch::Falling => Some("north west lines"),
        Hatch::Lying => Some("horizontal lines"),
        Hatch::Upright => Some("vertical lines"),
        Hatch::Crossed => Some("crosshatch"),
    };
    let pattern = pattern.map(|name| format!(", postaction={{pattern={name}, pattern color={lines}}}"));
    let dash = dash_pattern(look.dash(true).lengths());
    format!("draw={colour}, fill={fill}, line width=0.8bp, mark=none{dash}{}", pattern.unwrap_or_default())
}
