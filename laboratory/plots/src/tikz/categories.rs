//! Bars, stacked bars, boxes and heat maps.
//!
//! Category k is at k on the horizontal axis. Bars of several series are at their own positions beside it, and stacked
//! bars are drawn as sums from the top segment down, so that the picture needs no shifts or stacking.

use std::fmt::Write;

use super::escape::{escape, remark};
use super::{Writer, ends, line, number, shown};
use crate::draw::short;
use crate::marks::foot;
use crate::model::{BarSeries, BoxMark, BoxSeries, HeatPanel};
use crate::palette::{heat, readable_on};
use crate::plan::{Content, Look, PanelPlan, Side, shown_name, slot, stack, stack_slot};
use crate::scale::{Bands, Scale};
use crate::svg::PIXELS_PER_POINT;
use crate::text;

/// Returns the middle and the width of a slot in units of categories.
fn in_categories(bands: &Bands, (left, width): (f64, f64)) -> (f64, f64) {
    let count = bands.names.len().max(1) as f64;
    let round = |value: f64| (value * 1e4).round() / 1e4;
    (round((left + width / 2.0) * count - 0.5), round(width * count))
}

impl Writer<'_> {
    /// Returns the options of a panel that follow from its kind.
    pub(super) fn content_options(&self, panel: &PanelPlan, at: usize, width: f64) -> Vec<String> {
        match &panel.content {
            Content::Series(_) => Vec::new(),
            Content::Bars(_) | Content::Stacked(_) => vec!["log origin y=infty".into()],
            Content::Boxes(_) => vec!["boxplot/draw direction=y".into()],
            Content::Heat(_) => self.heat_options(at == 0, width),
        }
    }

    pub(super) fn bars(&mut self, panel: &PanelPlan, all: &[(&BarSeries, Look)]) {
        let (Side::Names(bands), Side::Numbers(y)) = (&panel.x, &panel.y) else { return };
        for (at, (series, look)) in all.iter().enumerate() {
            let has_intervals = series.bars.iter().any(|bar| bar.interval.is_some());
            let place = |category: &str| in_categories(bands, slot(bands, category, at, all.len()));
            let width = series.bars.first().map_or(0.0, |bar| place(&bar.category).1);
            let (mut errors, mut columns) = (String::new(), "x=x, y=y".to_owned());
            if has_intervals {
                errors.push_str(
                    ", error bars/y dir=both, error bars/y explicit, error bars/error bar style={solid, black}",
                );
                columns.push_str(", y error minus=yminus, y error plus=yplus");
            }
            self.name_of(&series.name, series.paper);
            line!(
                self,
                "\\addplot[ybar, bar shift=0pt, bar width={}, {}{errors}, forget plot]\n  table[{columns}, row \
                 sep=\\\\] {{",
                number(width),
                self.style(*look)
            );
            line!(self, "  x y{} \\\\", if has_intervals { " yminus yplus" } else { "" });
            for bar in &series.bars {
                let Some(value) = bar.value.map(|value| shown(y, value)) else { continue };
                let mut row = format!("  {} {}", number(place(&bar.category).0), number(value));
                if has_intervals {
                    let (low, high) = bar.interval.map_or((value, value), |(low, high)| (shown(y, low), high));
                    let _ = write!(row, " {} {}", number(value - low), number(high - value));
                }
                line!(self, "{row} \\\\ % {}", remark(&bar.category));
            }
            line!(self, "}};");
            let failed = series.bars.iter().filter(|bar| bar.value.is_none());
            let failed: Vec<f64> = failed.map(|bar| place(&bar.category).0).collect();
            self.failed_at(&failed, y);
        }
        if foot(panel) > 0.0 {
            line!(self, "\\draw[quorate ink] (axis cs:-0.5,0) -- (axis cs:{},0);", bands.names.len() as f64 - 0.5);
        }
    }

    pub(super) fn stacked(&mut self, panel: &PanelPlan, all: &[(&BarSeries, Look)]) {
        let (Side::Names(bands), Side::Numbers(y)) = (&panel.x, &panel.y) else { return };
        let series: Vec<BarSeries> = all.iter().map(|(series, _)| (*series).clone()).collect();
        for (at, (own, look)) in all.iter().enumerate().rev() {
            let place = |category: &str| in_categories(bands, stack_slot(bands, category, &series, look.paper));
            let width = bands.names.first().map_or(0.0, |name| place(name).1);
            self.name_of(&own.name, own.paper);
            line!(
                self,
                "\\addplot[ybar, bar shift=0pt, bar width={}, {}, forget plot] table[x=x, y=sum, row sep=\\\\] {{",
                number(width),
                self.style(*look)
            );
            line!(self, "  x sum value \\\\");
            let mut failed = Vec::new();
            for name in &bands.names {
                let Some(bar) = own.bars.iter().find(|bar| bar.category == *name) else { continue };
                let (_, top) = stack(&series, name)[at];
                match bar.value {
                    Some(value) => {
                        let across = number(place(name).0);
                        line!(self, "  {across} {} {} \\\\ % {}", number(top), number(value), remark(name));
                    }
                    None => failed.push(place(name).0),
                }
            }
            line!(self, "}};");
            self.failed_at(&failed, y);
        }
    }

    pub(super) fn boxes(&mut self, panel: &PanelPlan, all: &[(&BoxSeries, Look)]) {
        let (Side::Names(bands), Side::Numbers(y)) = (&panel.x, &panel.y) else { return };
        for (at, (series, look)) in all.iter().enumerate() {
            self.name_of(&series.name, series.paper);
            for mark in &series.boxes {
                let (across, width) = in_categories(bands, slot(bands, &mark.category, at, all.len()));
                self.box_mark(mark, *look, (across, width), y);
            }
        }
    }

    fn box_mark(&mut self, mark: &BoxMark, look: Look, (across, width): (f64, f64), y: &Scale) {
        let (style, name) = (self.style(look), remark(&mark.category));
        let [low, first, median, third, high] = mark.summary.map(|value| number(shown(y, value)));
        if mark.is_single() && look.paper {
            let (left, right) = (number(across - width / 2.0), number(across + width / 2.0));
            line!(self, "\\addplot[{style}, fill=none, dashed, forget plot]");
            line!(self, "  coordinates {{({left},{median}) ({right},{median})}}; % {name}");
            return;
        }
        let fill = if look.paper { "" } else { ", fill opacity=0.3" };
        line!(self, "\\addplot[{style}{fill}, mark=*, mark size=0.8bp, boxplot prepared={{");
        line!(self, "  draw position={}, box extend={}, lower whisker={low},", number(across), number(width));
        line!(self, "  lower quartile={first}, median={median}, upper quartile={third}, upper whisker={high}}},");
        let outliers: Vec<String> = mark.outliers.iter().map(|value| number(shown(y, *value))).collect();
        match outliers.is_empty() {
            true => {
                line!(self, "  forget plot] coordinates {{}}; % {name}");
            }
            false => {
                let rows = outliers.join(" \\\\ ");
                line!(self, "  forget plot] table[y=y, row sep=\\\\] {{ y \\\\ {rows} \\\\ }}; % {name}");
            }
        }
    }

    fn heat_options(&self, has_bar: bool, width: f64) -> Vec<String> {
        let Some((axis, scale)) = &self.plan.heat else { return Vec::new() };
        let ticks = || scale.ticks.iter().filter(|tick| !tick.label.is_empty());
        let places: Vec<String> = ticks().map(|tick| number(meta(scale, tick.value))).collect();
        let labels: Vec<String> = ticks().map(|tick| format!("{{{}}}", escape(&tick.label))).collect();
        let lift = if self.plan.panels.iter().any(|panel| !panel.title.is_empty()) { 18 } else { 4 };
        let bar = format!(
            "colorbar horizontal, colorbar style={{at={{(0,1)}}, anchor=south west, yshift={lift}bp, width={}bp, \
             height=6bp, axis lines=box, xticklabel pos=upper, xtick={{{}}}, xticklabels={{{}}}, title={{{}}}, \
             title style={{at={{(0,1)}}, anchor=south west, yshift=14bp, font=\\normalfont}}}}",
            (width / PIXELS_PER_POINT).round(),
            places.join(","),
            labels.join(","),
            escape(&axis.title())
        );
        let (low, high) = ends(scale);
        let limits =
            format!("point meta min={}, point meta max={}", number(meta(scale, low)), number(meta(scale, high)));
        let mut options = vec!["enlargelimits=false, axis on top".into(), "colormap name=quorate".into(), limits];
        options.extend(has_bar.then_some(bar));
        options
    }

    pub(super) fn heat(&mut self, panel: &HeatPanel) {
        let Some((_, scale)) = &self.plan.heat else { return };
        let (columns, rows) = (panel.columns.len(), panel.rows.len());
        if columns == 0 || rows == 0 {
            return;
        }
        let value = |column: usize, row: usize| {
            let cell = panel.cells.iter().find(|cell| cell.column == column && cell.row == row);
            cell.and_then(|cell| cell.value)
        };
        let mut empty = Vec::new();
        line!(
            self,
            "\\addplot[matrix plot*, point meta=explicit, mesh/cols={columns}, forget plot] \
             table[x=x, y=y, meta=meta, row sep=\\\\] {{"
        );
        line!(self, "  x y meta value \\\\");
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let own = value(column, row);
            let shown = own.unwrap_or_else(|| ends(scale).0);
            if own.is_none() {
                empty.push((column, row));
            }
            let printed = own.map_or_else(|| "nan".into(), number);
            line!(self, "  {column} {row} {} {printed} \\\\", number(meta(scale, shown)));
        }
        line!(self, "}};");
        for (column, row) in empty {
            let (column, row) = (column as f64, row as f64);
            line!(
                self,
                "\\fill[white] (axis cs:{},{}) rectangle (axis cs:{},{});",
                column - 0.5,
                row - 0.5,
                column + 0.5,
                row + 0.5
            );
        }
        self.numbers(panel, scale);
    }

    /// Writes the values into their fields, and the sign for failed measurements.
    fn numbers(&mut self, panel: &HeatPanel, scale: &Scale) {
        for cell in &panel.cells {
            let place = format!("(axis cs:{},{})", cell.column, cell.row);
            let Some(value) = cell.value else {
                line!(self, "\\node[quorate bad] at {place} {{$\\times$}};");
                continue;
            };
            let ink = if readable_on(heat(scale.place(value))) == [0, 0, 0] { "black" } else { "white" };
            if panel.paper {
                let (column, row) = (cell.column as f64, cell.row as f64);
                let (left, right, low, high) = (column - 0.45, column + 0.45, row - 0.4, row + 0.4);
                line!(self, "\\draw[{ink}, dashed] (axis cs:{left},{low}) rectangle (axis cs:{right},{high});");
            }
            let content = text::shorten(&short(value), 60.0, crate::draw::SIZE, false);
            line!(self, "\\node[text={ink}, inner sep=1.5pt] at {place} {{{}}};", escape(&content));
        }
    }

    fn name_of(&mut self, name: &str, paper: bool) {
        let name = shown_name(name, paper);
        if !name.is_empty() {
            line!(self, "% {}", remark(&name));
        }
    }

    fn failed_at(&mut self, places: &[f64], y: &Scale) {
        for across in places {
            let (across, up) = (number(*across), number(ends(y).0));
            self.failed(&across, &up, "");
        }
    }
}

/// Returns the quantity that the colours show: its logarithm on a logarithmic scale.
fn meta(scale: &Scale, value: f64) -> f64 {
    if scale.log { shown(scale, value).log10() } else { value }
}
