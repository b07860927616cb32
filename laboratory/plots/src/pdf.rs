//! Writes a drawing as a single-page PDF of the figure's size. Text uses Helvetica, which every reader has, so that no
//! font need be embedded; characters outside its Latin alphabet are replaced.

use std::collections::BTreeSet;

use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str, TextStr};

use crate::palette::LIGHT;
use crate::scene::{Anchor, Paint, Scene, Shape, Style, Text};
use crate::text;

const CATALOG: Ref = Ref::new(1);
const TREE: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const INFO: Ref = Ref::new(5);
const REGULAR: (Ref, Name<'static>, Name<'static>) = (Ref::new(6), Name(b"R"), Name(b"Helvetica"));
const BOLD: (Ref, Name<'static>, Name<'static>) = (Ref::new(7), Name(b"B"), Name(b"Helvetica-Bold"));
/// Distance of a control point from its corner, in radii, for a Bézier curve that approximates a quarter circle.
const QUARTER: f64 = 0.552_284_75;

/// Writes a file that is `width_pt` points wide. Its subject is the caption, which may be empty.
pub(crate) fn file(scene: &Scene, title: &str, caption: &str, width_pt: f64) -> Vec<u8> {
    let scale = width_pt / scene.width;
    let (width, height) = (width_pt as f32, (scene.height * scale) as f32);
    let mut pdf = Pdf::new();
    pdf.catalog(CATALOG).pages(TREE);
    pdf.pages(TREE).kids([PAGE]).count(1);
    let mut about = pdf.document_info(INFO);
    about.title(TextStr(title)).producer(TextStr("quorate"));
    if !caption.is_empty() {
        about.subject(TextStr(caption));
    }
    about.finish();
    let mut page = pdf.page(PAGE);
    page.media_box(Rect::new(0.0, 0.0, width, height)).parent(TREE).contents(CONTENT);
    let mut resources = page.resources();
    resources.fonts().pair(REGULAR.1, REGULAR.0).pair(BOLD.1, BOLD.0);
    let mut states = resources.ext_g_states();
    for opacity in opacities(scene) {
        let part = f32::from(opacity) / 100.0;
        states
            .insert(Name(state(opacity).as_bytes()))
            .start::<pdf_writer::writers::ExtGraphicsState>()
            .stroking_alpha(part)
            .non_stroking_alpha(part);
    }
    states.finish();
    resources.finish();
    page.finish();
    for (reference, _, name) in [REGULAR, BOLD] {
        pdf.type1_font(reference).base_font(name).encoding_predefined(Name(b"WinAnsiEncoding"));
    }
    let mut content = Content::new();
    // From pixels with y pointing down to points with y pointing up.
    content.transform([scale as f32, 0.0, 0.0, -scale as f32, 0.0, height]);
    content.set_line_join(LineJoinStyle::RoundJoin);
    for shape in &scene.shapes {
        write_shape(shape, &mut content);
    }
    pdf.stream(CONTENT, &content.finish());
    pdf.finish()
}

fn opacities(scene: &Scene) -> BTreeSet<u8> {
    let opacity = |shape: &Shape| match shape {
        Shape::Path { style, .. } | Shape::Rectangle { style, .. } | Shape::Circle { style, .. } => style.opacity,
        Shape::Dots { opacity, .. } => *opacity,
        Shape::Text(_) => 100,
    };
    scene.shapes.iter().map(opacity).filter(|opacity| *opacity < 100).collect()
}

fn state(opacity: u8) -> String {
    format!("O{opacity}")
}

fn write_shape(shape: &Shape, content: &mut Content) {
    match shape {
        Shape::Path { runs, closed, style } => painted(content, *style, |content| {
            for run in runs.iter().filter(|run| !run.is_empty()) {
                content.move_to(run[0].0 as f32, run[0].1 as f32);
                for (x, y) in &run[1..] {
                    content.line_to(*x as f32, *y as f32);
                }
                if *closed {
                    content.close_path();
                }
            }
        }),
        Shape::Rectangle { x, y, width, height, style } => painted(content, *style, |content| {
            content.rect(*x as f32, *y as f32, *width as f32, *height as f32);
        }),
        Shape::Circle { x, y, radius, style } => painted(content, *style, |content| circle(content, (*x, *y), *radius)),
        Shape::Dots { places, radius, paint, opacity } => {
            if places.is_empty() {
                return;
            }
            content.save_state();
            set_style(content, Style::stroke(*paint, radius * 2.0).opacity(*opacity));
            content.set_line_cap(LineCapStyle::RoundCap);
            // One path per point: within a single path, overlapping points would not add up.
            for (x, y) in places {
                content.move_to(round(*x), round(*y)).line_to(round(*x), round(*y)).stroke();
            }
            content.restore_state();
        }
        Shape::Text(text) => write_text(text, content),
    }
}

fn painted(content: &mut Content, style: Style, path: impl Fn(&mut Content)) {
    if style.fill.is_none() && style.stroke.is_none() {
        return;
    }
    content.save_state();
    set_style(content, style);
    path(content);
    match (style.fill, style.stroke) {
        (Some(_), Some(_)) => content.fill_nonzero_and_stroke(),
        (Some(_), None) => content.fill_nonzero(),
        _ => content.stroke(),
    };
    content.restore_state();
}

fn set_style(content: &mut Content, style: Style) {
    if style.opacity < 100 {
        content.set_parameters(Name(state(style.opacity).as_bytes()));
    }
    if let Some(paint) = style.fill {
        let [red, green, blue] = rgb(paint);
        content.set_fill_rgb(red, green, blue);
    }
    if let Some(paint) = style.stroke {
        let [red, green, blue] = rgb(paint);
        content.set_stroke_rgb(red, green, blue).set_line_width(style.width as f32);
        content.set_dash_pattern(style.dash.lengths().iter().map(|length| *length as f32), 0.0);
    }
}

/// Rounds a coordinate to a tenth of a pixel, which keeps files with many points small.
fn round(value: f64) -> f32 {
    ((value * 10.0).round() / 10.0) as f32
}

fn circle(content: &mut Content, (x, y): (f64, f64), radius: f64) {
    let at = |right: f64, down: f64| ((x + right * radius) as f32, (y + down * radius) as f32);
    let (from_x, from_y) = at(1.0, 0.0);
    content.move_to(from_x, from_y);
    for (one, two, end) in [
        ((1.0, QUARTER), (QUARTER, 1.0), (0.0, 1.0)),
        ((-QUARTER, 1.0), (-1.0, QUARTER), (-1.0, 0.0)),
        ((-1.0, -QUARTER), (-QUARTER, -1.0), (0.0, -1.0)),
        ((QUARTER, -1.0), (1.0, -QUARTER), (1.0, 0.0)),
    ] {
        let ((x1, y1), (x2, y2), (x3, y3)) = (at(one.0, one.1), at(two.0, two.1), at(end.0, end.1));
        content.cubic_to(x1, y1, x2, y2, x3, y3);
    }
    content.close_path();
}

fn rgb(paint: Paint) -> [f32; 3] {
    LIGHT.rgb(paint).map(|channel| f32::from(channel) / 255.0)
}

fn write_text(text: &Text, content: &mut Content) {
    let shift = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => 0.5,
        Anchor::End => 1.0,
    };
    let back = shift * text::width(&text.content, text.size, text.bold);
    let (sin, cos) = text.turn.to_radians().sin_cos();
    let (x, y) = (text.x - back * cos, text.y - back * sin);
    let [red, green, blue] = rgb(text.paint);
    let font = if text.bold { BOLD.1 } else { REGULAR.1 };
    content.begin_text().set_fill_rgb(red, green, blue).set_font(font, text.size as f32);
    // The page's y axis points down, so glyphs are flipped back.
    content.set_text_matrix([cos as f32, sin as f32, sin as f32, -cos as f32, x as f32, y as f32]);
    content.show(Str(&encode(&text.content))).end_text();
}

/// Encodes text for Helvetica. Unsupported characters become look-alikes or a question mark.
fn encode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' '..='~' | '\u{a0}'..='\u{ff}' => bytes.push(c as u32 as u8),
            '\u{2026}' => bytes.push(0x85),
            '\u{2022}' => bytes.push(0x95),
            '\u{2013}' | '\u{2212}' => bytes.push(0x96),
            '\u{2014}' => bytes.push(0x97),
            '\u{2018}' => bytes.push(0x91),
            '\u{2019}' => bytes.push(0x92),
            '\u{201c}' => bytes.push(0x93),
            '\u{201d}' => bytes.push(0x94),
            '\u{20ac}' => bytes.push(0x80),
            '\u{3bc}' => bytes.push(0xb5),
            '\u{2264}' => bytes.extend(b"<="),
            '\u{2265}' => bytes.extend(b">="),
            '\u{2009}' | '\u{202f}' => bytes.push(b' '),
            _ => bytes.push(b'?'),
        }
    }
    bytes
}
