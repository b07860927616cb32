//! Curves, lines, scatter plots, series over time and histograms.

use serde_json::{Map, Value, json};

use super::{Writer, cross, drawn, field, fields, hex, numbers, quantity};
use crate::model::{Plot, Point, Series, Trace};
use crate::plan::{Look, PanelPlan, shown_name, step_end};
use crate::scale::Scale;
use crate::scene::Paint;

impl Writer<'_> {
    pub(super) fn series(&mut self, panel: &PanelPlan, all: &[(&Series, Look)], at: usize) -> Vec<Value> {
        let (x, y) = (numbers(&panel.x), numbers(&panel.y));
        for (series, look) in all {
            self.points(series, *look, (x, y), at);
        }
        let figure = self.plan.figure;
        let position = json!({ "x": quantity("x", &figure.x, x), "y": quantity("y", panel.y_axis, y) });
        let mut layers = self.events(&position, x);
        match figure.plot {
            Plot::Histogram { .. } => layers.push(json!({
                "transform": [{ "filter": "isValid(datum.y)" }],
                "mark": { "type": "rect", "tooltip": { "content": "data" } },
                "encoding": with(&position, json!({
                    "x2": field("x_end", x), "y2": { "datum": drawn(y, y.low.max(0.0)) }, "fill": self.colour(),
                })),
            })),
            Plot::Time { .. } => layers.push(self.line(&position, "step-after")),
            Plot::Scatter(_) => layers.extend(self.marks(&position, (x, y), 4)),
            Plot::Curve(_) | Plot::Line(_) | Plot::Bars(_) | Plot::Stacked(_) | Plot::Boxes(_) | Plot::Heat { .. } => {
                layers.push(self.line(&position, "linear"));
                layers.extend(self.marks(&position, (x, y), 30));
            }
        }
        layers.push(json!({
            "transform": [{ "filter": "isValid(datum.failed)" }],
            "mark": cross(),
            "encoding": { "x": position["x"], "y": { "value": "height" } },
        }));
        layers
    }

    fn points(&mut self, series: &Series, look: Look, (x, y): (&Scale, &Scale), at: usize) {
        let mut points: Vec<&Point> = series.points.iter().collect();
        if matches!(self.plan.figure.plot, Plot::Line(_)) {
            points.sort_by(|one, two| one.x.total_cmp(&two.x));
        }
        let has_steps = self.plan.figure.plot.has_steps();
        let name = shown_name(&series.name, series.paper);
        for (order, point) in points.iter().enumerate() {
            let mut row = Map::new();
            row.insert("order".into(), order.into());
            row.insert("hollow".into(), (look.paper || look.trace == Trace::Hollow).into());
            row.insert("joined".into(), look.trace.has_line().into());
            row.insert("marked".into(), (look.trace != Trace::Line).into());
            fields(&mut row, "x", x, Some(point.x));
            fields(&mut row, "y", y, point.y);
            if has_steps {
                fields(&mut row, "x_end", x, Some(step_end(&series.points, order)));
            } else if let Some((low, high)) = point.x_interval {
                fields(&mut row, "x_low", x, Some(low));
                fields(&mut row, "x_high", x, Some(high));
            }
            if let Some((low, high)) = point.y_interval {
                fields(&mut row, "y_low", y, Some(low));
                fields(&mut row, "y_high", y, Some(high));
            }
            if point.y.is_none() {
                let why = point.hover.rows.iter().find(|(name, _)| name == "failed");
                row.insert("failed".into(), why.map_or("failed", |(_, why)| why.as_str()).into());
            }
            self.row(at, &name, series.paper, &point.hover, series.command.as_ref(), Value::Object(row.clone()));
            // A step ends where the next one begins, or at its own end.
            let ends = points.get(order + 1).is_none_or(|next| next.x != step_end(&series.points, order));
            if matches!(self.plan.figure.plot, Plot::Time { .. }) && ends && point.y.is_some() {
                fields(&mut row, "x", x, Some(step_end(&series.points, order)));
                row.insert("is_end".into(), true.into());
                self.row(at, &name, series.paper, &point.hover, series.command.as_ref(), Value::Object(row));
            }
        }
    }

    fn line(&self, position: &Value, interpolate: &str) -> Value {
        json!({
            "transform": [{ "filter": "datum.joined" }],
            "mark": { "type": "line", "interpolate": interpolate, "strokeWidth": 1.7 },
            "encoding": with(position, json!({
                "stroke": self.colour(),
                "strokeDash": self.dash(),
                "order": { "field": "order", "type": "quantitative" },
            })),
        })
    }

    /// Returns the layers of intervals and of filled and hollow markers.
    fn marks(&self, position: &Value, (x, y): (&Scale, &Scale), size: u32) -> Vec<Value> {
        let colour = self.colour();
        let interval = |own: char, scale: &Scale| {
            let (low, high) = (format!("{own}_low"), format!("{own}_high"));
            let mut ends = json!({ "stroke": colour });
            ends[own.to_string()] = position[own.to_string()].clone();
            ends[own.to_string()]["field"] = field(&low, scale)["field"].clone();
            ends[format!("{own}2")] = field(&high, scale);
            json!({
                "transform": [{ "filter": format!("isValid(datum.{low})") }],
                "mark": { "type": "rule", "strokeWidth": 1 },
                "encoding": with(position, ends),
            })
        };
        let points = |hollow: bool| {
            let (test, fill) = match hollow {
                true => ("datum.marked && datum.hollow && isValid(datum.y)", json!({ "value": "white" })),
                false => ("datum.marked && !datum.hollow && isValid(datum.y)", colour.clone()),
            };
            json!({
                "transform": [{ "filter": test }],
                "mark": { "type": "point", "size": size, "opacity": 1, "tooltip": { "content": "data" } },
                "encoding": with(position, json!({ "fill": fill, "stroke": colour, "shape": self.shape() })),
            })
        };
        vec![interval('y', y), interval('x', x), points(false), points(true)]
    }

    fn events(&self, position: &Value, x: &Scale) -> Vec<Value> {
        if self.plan.events.is_empty() {
            return Vec::new();
        }
        let row = |event: &crate::model::Event| {
            let mut row = Map::new();
            fields(&mut row, "x", x, Some(event.from));
            fields(&mut row, "x_end", x, event.to);
            row.insert("label".into(), event.label.clone().into());
            Value::Object(row)
        };
        let data = json!({ "values": self.plan.events.iter().map(row).collect::<Vec<Value>>() });
        let colour = hex(Paint::Event);
        let across = &position["x"];
        vec![
            json!({
                "data": data,
                "transform": [{ "filter": "isValid(datum.x_end)" }],
                "mark": { "type": "rect", "color": colour, "opacity": 0.12 },
                "encoding": { "x": across, "x2": field("x_end", x) },
            }),
            json!({
                "data": data,
                "mark": { "type": "rule", "color": colour, "strokeDash": [2, 3] },
                "encoding": { "x": across },
            }),
            json!({
                "data": data,
                "mark": { "type": "text", "color": colour, "angle": -90, "align": "right", "baseline": "top", "dy": 3 },
                "encoding": { "x": across, "y": { "value": 0 }, "text": { "field": "label", "type": "nominal" } },
            }),
        ]
    }
}

/// Returns an encoding with further channels.
pub(super) fn with(position: &Value, more: Value) -> Value {
    let mut all = position.clone();
    if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
        all.extend(more);
    }
    all
}
