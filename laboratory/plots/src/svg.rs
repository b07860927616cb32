//! Writes a drawing as SVG: inline in a page, coloured by the page's style sheet, or as a file with its own colours.

use std::fmt::Write;

use crate::escape::escape;
use crate::palette::LIGHT;
use crate::scene::{Anchor, Dash, Paint, Scene, Shape, Style, Text};

/// Fonts with the character widths assumed by the layout.
const FONTS: &str = "Helvetica, Arial, 'Liberation Sans', 'Nimbus Sans', sans-serif";
/// CSS pixels per point, the unit of paper.
pub(crate) const PIXELS_PER_POINT: f64 = 1.5;

/// Source of the colours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Colours {
    /// Classes of the page's style sheet.
    Classes,
    /// Attributes, from the light theme.
    Attributes,
}

/// Writes an element for a page. `summary` is the text for screen readers.
pub(crate) fn inline(scene: &Scene, summary: &str) -> String {
    let mut svg = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
        number(scene.width),
        number(scene.height),
        escape(summary)
    );
    write_groups(scene, &mut svg);
    svg.push_str("</svg>");
    svg
}

/// Writes a file that is `width_pt` points wide. `caption` may be empty.
pub(crate) fn file(scene: &Scene, title: &str, caption: &str, width_pt: f64) -> String {
    let height_pt = scene.height * width_pt / scene.width;
    let description = match caption {
        "" => String::new(),
        caption => format!("<desc>{}</desc>\n", escape(caption)),
    };
    let mut svg = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}pt\" \
         height=\"{}pt\" viewBox=\"0 0 {} {}\" font-family=\"{}\">\n<title>{}</title>\n{}",
        number(width_pt),
        number(height_pt),
        number(scene.width),
        number(scene.height),
        FONTS,
        escape(title),
        description
    );
    write_shapes(&scene.shapes, Colours::Attributes, &mut svg);
    svg.push_str("</svg>\n");
    svg
}

/// Returns the style sheet's rules that `inline` relies on, without the colours.
pub(crate) fn rules() -> String {
    let mut css = format!("svg text {{ font-family: {FONTS}; }}\nsvg path, svg rect {{ fill: none; }}\n");
    let fixed = [Paint::Ink, Paint::Soft, Paint::Rule, Paint::Grid, Paint::Surface, Paint::Event, Paint::Bad];
    let series = (0..crate::palette::COLOURS).map(Paint::Series);
    for paint in fixed.into_iter().chain(series) {
        let name = name(paint);
        let _ = writeln!(css, "svg .f-{name} {{ fill: var(--{name}); }} svg .s-{name} {{ stroke: var(--{name}); }}");
    }
    css
}

/// Returns the colours of a theme as style sheet variables.
pub(crate) fn variables(theme: &crate::palette::Theme) -> String {
    let fixed = [Paint::Ink, Paint::Soft, Paint::Rule, Paint::Grid, Paint::Surface, Paint::Event, Paint::Bad];
    let series = (0..crate::palette::COLOURS).map(Paint::Series);
    fixed.into_iter().chain(series).map(|paint| format!("--{}: {}; ", name(paint), hex(theme.rgb(paint)))).collect()
}

fn name(paint: Paint) -> String {
    match paint {
        Paint::Ink => "ink".into(),
        Paint::Soft => "soft".into(),
        Paint::Rule => "rule".into(),
        Paint::Grid => "grid".into(),
        Paint::Surface => "surface".into(),
        Paint::Event => "event".into(),
        Paint::Bad => "bad".into(),
        Paint::Series(index) => format!("series-{}", index % crate::palette::COLOURS),
        Paint::Rgb(rgb) => hex(rgb),
    }
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Formats a coordinate with at most two decimals.
fn number(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0 + 0.0;
    rounded.to_string()
}

/// Writes the shapes of each entry of the legend as a group, which the page's script can hide.
fn write_groups(scene: &Scene, svg: &mut String) {
    let mut written = 0;
    for group in &scene.groups {
        write_shapes(&scene.shapes[written..group.shapes.start], Colours::Classes, svg);
        let class = if group.is_key { " class=\"key\"" } else { "" };
        let _ = write!(svg, "<g{class} data-entry=\"{}\">", group.entry);
        write_shapes(&scene.shapes[group.shapes.clone()], Colours::Classes, svg);
        svg.push_str("</g>");
        written = group.shapes.end;
    }
    write_shapes(&scene.shapes[written..], Colours::Classes, svg);
}

fn write_shapes(shapes: &[Shape], colours: Colours, svg: &mut String) {
    for shape in shapes {
        match shape {
            Shape::Path { runs, closed, style } => {
                let runs = runs.iter().filter(|run| !run.is_empty());
                let runs: String = runs.map(|run| path(run, *closed)).collect();
                if !runs.is_empty() {
                    let _ = write!(svg, "<path d=\"{runs}\"{}/>", style_of(*style, colours));
                }
            }
            Shape::Rectangle { x, y, width, height, style } => {
                let _ = write!(
                    svg,
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>",
                    number(*x),
                    number(*y),
                    number(*width),
                    number(*height),
                    style_of(*style, colours)
                );
            }
            Shape::Circle { x, y, radius, style } => {
                let (x, y, radius) = (number(*x), number(*y), number(*radius));
                let _ = write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"{}/>", style_of(*style, colours));
            }
            Shape::Dots { places, radius, paint, opacity } => {
                if !places.is_empty() {
                    dots(places, Style::stroke(*paint, radius * 2.0).opacity(*opacity), colours, svg);
                }
            }
            Shape::Text(text) => write_text(text, colours, svg),
        }
    }
}

fn path(run: &[(f64, f64)], closed: bool) -> String {
    let places: Vec<String> = run.iter().map(|(x, y)| format!("{} {}", number(*x), number(*y))).collect();
    format!("M{}{}", places.join("L"), if closed { "Z" } else { "" })
}

/// Writes discs as one path of points with round ends, at a tenth of the size of separate circles.
fn dots(places: &[(f64, f64)], style: Style, colours: Colours, svg: &mut String) {
    let tenth = |value: f64| ((value * 10.0).round() / 10.0 + 0.0).to_string();
    let runs: String = places.iter().map(|(x, y)| format!("M{} {}h0", tenth(*x), tenth(*y))).collect();
    let _ = write!(svg, "<path d=\"{runs}\" stroke-linecap=\"round\"{}/>", style_of(style, colours));
}

fn write_text(text: &Text, colours: Colours, svg: &mut String) {
    let (x, y) = (number(text.x), number(text.y));
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let turn = if text.turn == 0.0 { String::new() } else { format!(" transform=\"rotate({} {x} {y})\"", text.turn) };
    let weight = if text.bold { " font-weight=\"bold\"" } else { "" };
    let size = number(text.size);
    let fill = style_of(Style::fill(text.paint), colours);
    let content = escape(&text.content);
    let _ = write!(svg, "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{weight}{turn}{fill}>{content}</text>");
}

fn style_of(style: Style, colours: Colours) -> String {
    let mut classes = Vec::new();
    let mut written = String::new();
    for (paint, kind, letter) in [(style.fill, "fill", "f"), (style.stroke, "stroke", "s")] {
        match (paint, colours) {
            (Some(Paint::Rgb(rgb)), Colours::Classes) => {
                let _ = write!(written, " style=\"{kind}:{}\"", hex(rgb));
            }
            (Some(paint), Colours::Classes) => classes.push(format!("{letter}-{}", name(paint))),
            (Some(paint), Colours::Attributes) => {
                let _ = write!(written, " {kind}=\"{}\"", hex(LIGHT.rgb(paint)));
            }
            (None, Colours::Attributes) if kind == "fill" => written.push_str(" fill=\"none\""),
            (None, _) => {}
        }
    }
    if !classes.is_empty() {
        let _ = write!(written, " class=\"{}\"", classes.join(" "));
    }
    if style.stroke.is_some() && style.width != 1.0 {
        let _ = write!(written, " stroke-width=\"{}\"", number(style.width));
    }
    if style.dash != Dash::Solid {
        let lengths: Vec<String> = style.dash.lengths().iter().map(|length| number(*length)).collect();
        let _ = write!(written, " stroke-dasharray=\"{}\"", lengths.join(" "));
    }
    if style.opacity < 100 {
        let _ = write!(written, " opacity=\"{}\"", number(f64::from(style.opacity) / 100.0));
    }
    written
}
