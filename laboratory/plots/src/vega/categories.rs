//! Bars, stacked bars, boxes and heat maps.

use serde_json::{Map, Value, json};

use super::series::with;
use super::{Writer, bands, categories, cross, drawn, field, fields, hex, numbers, quantity};
use crate::model::{Bar, BarSeries, BoxSeries, HeatPanel};
use crate::palette::HEAT;
use crate::plan::{Look, PanelPlan, shown_name, stack};
use crate::scale::{Bands, Scale};
use crate::scene::Paint;

/// Condition of a channel that shows values from a paper as hollow and dashed.
fn of_paper(paper: Value, ours: Value) -> Value {
    json!({ "condition": { "test": "datum.paper", "value": paper }, "value": ours })
}

impl Writer<'_> {
    pub(super) fn bars(&mut self, panel: &PanelPlan, all: &[(&BarSeries, Look)], at: usize) -> Vec<Value> {
        let scale = numbers(&panel.y);
        for (series, _) in all {
            let name = shown_name(&series.name, series.paper);
            for bar in &series.bars {
                let mut row = bar_row(bar, scale);
                if let Some((low, high)) = bar.interval {
                    fields(&mut row, "y_low", scale, Some(low));
                    fields(&mut row, "y_high", scale, Some(high));
                }
                self.row(at, &name, series.paper, &bar.hover, None, Value::Object(row));
            }
        }
        let foot = if scale.log { drawn(scale, if scale.zero { 0.0 } else { scale.low }) } else { 0.0 };
        let position = self.grouped(panel, all.len() > 1);
        let up = with(&position, json!({ "y": quantity("y", panel.y_axis, scale) }));
        let mut low = quantity("y_low", panel.y_axis, scale);
        low["title"] = panel.y_axis.title().into();
        vec![
            json!({
                "transform": [{ "filter": "isValid(datum.y)" }],
                "mark": { "type": "bar", "tooltip": { "content": "data" } },
                "encoding": with(&up, with(&self.area(), json!({ "y2": { "datum": foot } }))),
            }),
            json!({
                "transform": [{ "filter": "isValid(datum.y_low)" }],
                "mark": { "type": "rule", "strokeWidth": 1 },
                "encoding": with(&position, json!({ "y": low, "y2": field("y_high", scale) })),
            }),
            failed(&position),
        ]
    }

    pub(super) fn stacked(&mut self, panel: &PanelPlan, all: &[(&BarSeries, Look)], at: usize) -> Vec<Value> {
        let (names, scale) = (bands(&panel.x), numbers(&panel.y));
        let series: Vec<BarSeries> = all.iter().map(|(series, _)| (*series).clone()).collect();
        for category in &names.names {
            for (own, (from, to)) in series.iter().zip(stack(&series, category)) {
                let Some(bar) = own.bars.iter().find(|bar| bar.category == *category) else { continue };
                let mut row = bar_row(bar, scale);
                if bar.value.is_some() {
                    row.insert("from".into(), from.into());
                    row.insert("to".into(), to.into());
                }
                let name = shown_name(&own.name, own.paper);
                self.row(at, &name, own.paper, &bar.hover, None, Value::Object(row));
            }
        }
        let has_both = series.iter().any(|own| own.paper) && series.iter().any(|own| !own.paper);
        let mut position = json!({ "x": categories("category", &self.plan.figure.x.title(), names) });
        if has_both {
            position["xOffset"] = json!({ "field": "paper", "type": "nominal" });
        }
        let up = json!({ "y": quantity("from", panel.y_axis, scale), "y2": { "field": "to" } });
        vec![
            json!({
                "transform": [{ "filter": "isValid(datum.to)" }],
                "mark": { "type": "bar", "tooltip": { "content": "data" } },
                "encoding": with(&with(&position, up), self.area()),
            }),
            failed(&position),
        ]
    }

    pub(super) fn boxes(&mut self, panel: &PanelPlan, all: &[(&BoxSeries, Look)], at: usize) -> Vec<Value> {
        let scale = numbers(&panel.y);
        const NAMES: [&str; 5] = ["low", "first_quartile", "median", "third_quartile", "high"];
        for (series, _) in all {
            let name = shown_name(&series.name, series.paper);
            for mark in &series.boxes {
                let mut row = Map::new();
                row.insert("category".into(), mark.category.clone().into());
                for (field, value) in NAMES.into_iter().zip(mark.summary) {
                    fields(&mut row, field, scale, Some(value));
                }
                self.row(at, &name, series.paper, &mark.hover, None, Value::Object(row));
                for value in &mark.outliers {
                    let mut row = Map::new();
                    row.insert("category".into(), mark.category.clone().into());
                    fields(&mut row, "outlier", scale, Some(*value));
                    self.row(at, &name, series.paper, &crate::model::Hover::default(), None, Value::Object(row));
                }
            }
        }
        let position = self.grouped(panel, all.len() > 1);
        let colour = self.colour();
        let span = |kind: &str, from: &str, to: Option<&str>, more: Value| {
            let mut ends = json!({ "y": quantity(from, panel.y_axis, scale) });
            if let Some(to) = to {
                ends["y2"] = field(to, scale);
            }
            json!({
                "transform": [{ "filter": format!("isValid(datum.{from})") }],
                "mark": { "type": kind, "tooltip": { "content": "data" } },
                "encoding": with(&with(&position, ends), more),
            })
        };
        let stroke = json!({ "stroke": colour });
        let area = json!({ "fill": colour, "stroke": colour, "fillOpacity": of_paper(0.0.into(), 0.3.into()) });
        vec![
            span("rule", "low", Some("high"), stroke.clone()),
            span("bar", "first_quartile", Some("third_quartile"), area),
            span("tick", "median", None, json!({ "color": colour })),
            span("circle", "outlier", None, json!({ "color": colour, "size": { "value": 8 } })),
        ]
    }

    pub(super) fn heat(&mut self, panel: &HeatPanel, at: usize) -> Vec<Value> {
        let Some((axis, scale)) = &self.plan.heat else { return Vec::new() };
        let (columns, rows) = (Bands { names: panel.columns.clone() }, Bands { names: panel.rows.clone() });
        for cell in &panel.cells {
            let mut row = Map::new();
            row.insert("column".into(), panel.columns[cell.column].clone().into());
            row.insert("row".into(), panel.rows[cell.row].clone().into());
            fields(&mut row, "value", scale, cell.value);
            if cell.value.is_none() {
                row.insert("failed".into(), "failed".into());
            }
            self.row(at, "", panel.paper, &cell.hover, None, Value::Object(row));
        }
        let mut up = categories("row", &self.plan.figure.y.title(), &rows);
        // The first row is the lowest, as on a numeric axis.
        let reversed: Vec<&String> = panel.rows.iter().rev().collect();
        (up["sort"], up["scale"]["domain"]) = (json!(reversed), json!(reversed));
        up["axis"]["labelAngle"] = 0.into();
        let position = json!({ "x": categories("column", &self.plan.figure.x.title(), &columns), "y": up });
        let range: Vec<String> = HEAT.iter().map(|rgb| hex(Paint::Rgb(*rgb))).collect();
        let mut colour = quantity("value", axis, scale);
        if let Value::Object(channel) = &mut colour {
            channel.remove("axis");
            channel.insert("legend".into(), json!({ "title": axis.title(), "titleLimit": 0 }));
        }
        colour["scale"]["range"] = json!(range);
        vec![
            json!({
                "transform": [{ "filter": "isValid(datum.value)" }],
                "mark": { "type": "rect", "tooltip": { "content": "data" } },
                "encoding": with(&position, json!({ "color": colour })),
            }),
            failed(&position),
        ]
    }

    /// Returns the horizontal channels of bars and boxes.
    fn grouped(&self, panel: &PanelPlan, has_several: bool) -> Value {
        let mut position = json!({ "x": categories("category", &self.plan.figure.x.title(), bands(&panel.x)) });
        if has_several {
            let domain: Vec<&str> = self.names.iter().map(|named| named.name.as_str()).collect();
            position["xOffset"] =
                json!({ "field": "series", "type": "nominal", "sort": domain, "scale": { "domain": domain } });
        }
        position
    }

    fn area(&self) -> Value {
        let colour = self.colour();
        json!({
            "fill": colour,
            "stroke": colour,
            "fillOpacity": of_paper(0.0.into(), 1.0.into()),
            "strokeDash": of_paper(json!([5, 3.5]), json!([1, 0])),
        })
    }
}

fn bar_row(bar: &Bar, scale: &Scale) -> Map<String, Value> {
    let mut row = Map::new();
    row.insert("category".into(), bar.category.clone().into());
    fields(&mut row, "y", scale, bar.value);
    if bar.value.is_none() {
        row.insert("failed".into(), "failed".into());
    }
    row
}

/// Returns the layer of signs for failed measurements.
fn failed(position: &Value) -> Value {
    let bottom = if position["y"].is_null() { json!({ "y": { "value": "height" } }) } else { json!({}) };
    json!({
        "transform": [{ "filter": "isValid(datum.failed)" }],
        "mark": cross(),
        "encoding": with(position, bottom),
    })
}
