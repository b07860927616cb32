//! Writes a figure as a Vega-Lite specification: the values with all columns of their tooltips, and layers that draw
//! them in the sizes and colours of the other formats.

mod categories;
mod series;

use serde_json::{Map, Value, json};

use crate::Width;
use crate::draw::{Drawing, Frame};
use crate::model::{Axis, Hover};
use crate::palette::LIGHT;
use crate::plan::{Content, Look, Marker, PanelPlan, Plan, Side, shown_name};
use crate::scale::{Bands, Scale};
use crate::scene::Paint;

/// Version of the language, as the address that names its schema.
const SCHEMA: &str = "https://vega.github.io/schema/vega-lite/v5.json";
/// CSS pixels per pixel of the drawing: an inch has 96 CSS pixels and 108 of the drawing.
const CSS_PER_PIXEL: f64 = 96.0 / 108.0;
/// Font size in CSS pixels: 8 points.
const FONT_PX: f64 = 10.67;
/// Marker without a name in Vega: a pentagon as a path in a square from -1 to 1.
const PENTAGON: &str = "M0,-1L0.951,-0.309L0.588,0.809L-0.588,0.809L-0.951,-0.309Z";

/// A series in scales and legends.
struct Named {
    name: String,
    look: Look,
}

/// Specification in the making.
struct Writer<'p> {
    plan: &'p Plan<'p>,
    names: Vec<Named>,
    rows: Vec<Value>,
}

/// Writes the specification of a planned figure.
pub(crate) fn specification(plan: &Plan, drawing: &Drawing, width: Width) -> String {
    let mut writer = Writer { plan, names: names(plan), rows: Vec::new() };
    let frames = &drawing.frames;
    let views: Vec<Map<String, Value>> =
        plan.panels.iter().enumerate().map(|(at, panel)| writer.view(panel, at, frames[at])).collect();
    let figure = plan.figure;
    let mut top = Map::new();
    top.insert("$schema".into(), SCHEMA.into());
    top.insert("title".into(), figure.title.clone().into());
    top.insert("description".into(), figure.caption.clone().into());
    top.insert("usermeta".into(), json!({ "id": figure.id, "width_points": width.points() }));
    top.insert("data".into(), json!({ "values": writer.rows }));
    top.insert("config".into(), config());
    match <[_; 1]>::try_from(views) {
        Ok([only]) => top.extend(only),
        Err(views) => {
            let columns = frames.iter().take_while(|frame| frame.y == frames[0].y).count();
            top.insert("columns".into(), columns.into());
            top.insert("concat".into(), views.into_iter().map(Value::Object).collect());
        }
    }
    let mut text = serde_json::to_string_pretty(&Value::Object(top)).expect("a specification is plain data");
    text.push('\n');
    text
}

fn config() -> Value {
    let [ink, grid, rule] = [Paint::Ink, Paint::Grid, Paint::Rule].map(hex);
    json!({
        "font": "Helvetica, Arial, sans-serif",
        "background": "white",
        "view": { "stroke": null },
        "axis": {
            "gridColor": grid, "domainColor": rule, "tickColor": rule, "labelFontSize": FONT_PX,
            "titleFontSize": FONT_PX, "titleFontWeight": "normal", "titleColor": ink,
        },
        "legend": { "orient": "top", "title": null, "labelFontSize": FONT_PX, "symbolStrokeWidth": 1.5 },
        "title": { "anchor": "start", "fontSize": FONT_PX },
    })
}

fn hex(paint: Paint) -> String {
    let [red, green, blue] = LIGHT.rgb(paint);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Returns the series with distinct names, in order of appearance.
fn names(plan: &Plan) -> Vec<Named> {
    let mut names: Vec<Named> = Vec::new();
    for panel in &plan.panels {
        let own: Vec<Named> = match &panel.content {
            Content::Series(all) => all.iter().map(|(s, look)| named(&s.name, s.paper, *look)).collect(),
            Content::Bars(all) | Content::Stacked(all) => {
                all.iter().map(|(s, look)| named(&s.name, s.paper, *look)).collect()
            }
            Content::Boxes(all) => all.iter().map(|(s, look)| named(&s.name, s.paper, *look)).collect(),
            Content::Heat(_) => Vec::new(),
        };
        for one in own {
            if !names.iter().any(|known| known.name == one.name) {
                names.push(one);
            }
        }
    }
    names
}

fn named(name: &str, paper: bool, look: Look) -> Named {
    Named { name: shown_name(name, paper), look }
}

impl Writer<'_> {
    fn view(&mut self, panel: &PanelPlan, at: usize, frame: Frame) -> Map<String, Value> {
        let layers = match &panel.content {
            Content::Series(all) => self.series(panel, all, at),
            Content::Bars(all) => self.bars(panel, all, at),
            Content::Stacked(all) => self.stacked(panel, all, at),
            Content::Boxes(all) => self.boxes(panel, all, at),
            Content::Heat(heat) => self.heat(heat, at),
        };
        let mut view = Map::new();
        if !panel.title.is_empty() {
            view.insert("title".into(), panel.title.into());
        }
        view.insert("width".into(), (frame.width * CSS_PER_PIXEL).round().into());
        view.insert("height".into(), (frame.height * CSS_PER_PIXEL).round().into());
        if self.plan.panels.len() > 1 {
            view.insert("transform".into(), json!([{ "filter": format!("datum.panel === {at}") }]));
        }
        view.insert("layer".into(), layers.into());
        view
    }

    /// Adds a row with the fields of its tooltip.
    fn row(&mut self, panel: usize, name: &str, paper: bool, hover: &Hover, command: Option<&String>, own: Value) {
        let mut row = Map::new();
        row.insert("panel".into(), panel.into());
        row.insert("series".into(), name.into());
        row.insert("paper".into(), paper.into());
        if let Some(command) = hover.command.as_ref().or(command) {
            row.insert("command".into(), command.clone().into());
        }
        for (key, value) in &hover.rows {
            row.insert(format!("about {key}"), value.clone().into());
        }
        if let Value::Object(own) = own {
            row.extend(own.into_iter().filter(|(_, value)| !value.is_null()));
        }
        self.rows.push(Value::Object(row));
    }

    /// Returns a channel that shows the series, with a value for each.
    fn by_series(&self, of: impl Fn(Look) -> Value) -> Value {
        let domain: Vec<&str> = self.names.iter().map(|named| named.name.as_str()).collect();
        let range: Vec<Value> = self.names.iter().map(|named| of(named.look)).collect();
        let legend = if self.plan.legend.is_empty() { Value::Null } else { json!({ "title": null }) };
        json!({ "field": "series", "type": "nominal", "scale": { "domain": domain, "range": range }, "legend": legend })
    }

    fn colour(&self) -> Value {
        self.by_series(|look| hex(Paint::Series(look.colour())).into())
    }

    fn shape(&self) -> Value {
        self.by_series(|look| {
            let shape = match look.marker() {
                Marker::Circle => "circle",
                Marker::Square => "square",
                Marker::Triangle => "triangle-up",
                Marker::Diamond => "diamond",
                Marker::TriangleDown => "triangle-down",
                Marker::Pentagon => PENTAGON,
            };
            shape.into()
        })
    }

    fn dash(&self) -> Value {
        self.by_series(|look| match look.dash(self.plan.has_markers(look.trace)).lengths() {
            [] => json!([1, 0]),
            lengths => json!(lengths),
        })
    }
}

/// Returns the channel of a numeric axis.
fn quantity(field: &str, axis: &Axis, scale: &Scale) -> Value {
    let low = if scale.zero { scale.stand_in() } else { scale.low };
    let field = if scale.zero { format!("{field}_drawn") } else { field.to_owned() };
    let ticks = scale.ticks.iter().filter(|tick| !tick.label.is_empty());
    let values: Vec<f64> = ticks.clone().map(|tick| drawn(scale, tick.value)).collect();
    let labels: Vec<&str> = ticks.map(|tick| tick.label.as_str()).collect();
    // The index of a label is a fraction of the last one.
    let label = format!("{}[round(datum.index * {})]", json!(labels), labels.len().saturating_sub(1));
    let about = json!({ "values": values, "labelExpr": label, "title": axis.title() });
    let domain = [low, scale.high];
    let extent = match scale.log {
        true => json!({ "type": "log", "domain": domain, "nice": false }),
        false => json!({ "type": "linear", "domain": domain, "nice": false, "zero": false }),
    };
    json!({ "field": field, "type": "quantitative", "scale": extent, "axis": about })
}

/// Returns the channel of a category axis.
fn categories(field: &str, title: &str, bands: &Bands) -> Value {
    json!({
        "field": field,
        "type": "nominal",
        "sort": bands.names,
        "scale": { "domain": bands.names },
        "axis": { "title": title, "labelAngle": -40 },
    })
}

/// Returns the mark for a failed measurement.
fn cross() -> Value {
    json!({
        "type": "point", "shape": "cross", "angle": 45, "size": 40, "filled": true, "opacity": 1,
        "color": hex(Paint::Bad), "tooltip": { "content": "data" },
    })
}

/// Returns the value at which a value is drawn: a logarithmic axis has no 0.
fn drawn(scale: &Scale, value: f64) -> f64 {
    let value = value + 0.0;
    if scale.zero && value <= 0.0 { scale.stand_in() } else { value }
}

/// Returns a value's fields: the value, and where it is drawn if that differs.
fn fields(row: &mut Map<String, Value>, field: &str, scale: &Scale, value: Option<f64>) {
    let Some(value) = value else { return };
    row.insert(field.into(), (value + 0.0).into());
    if scale.zero {
        row.insert(format!("{field}_drawn"), drawn(scale, value).into());
    }
}

/// Returns the name of a field for positions.
fn field(name: &str, scale: &Scale) -> Value {
    let name = if scale.zero { format!("{name}_drawn") } else { name.to_owned() };
    json!({ "field": name })
}

fn numbers(side: &Side) -> &Scale {
    match side {
        Side::Numbers(scale) => scale,
        Side::Names(_) => unreachable!("panels of this kind have a numeric axis there"),
    }
}

fn bands(side: &Side) -> &Bands {
    match side {
        Side::Names(bands) => bands,
        Side::Numbers(_) => unreachable!("panels of this kind have categories there"),
    }
}
