//! Figures of experiments: from plain data to SVG and PDF for a paper, to source that an author keeps (TikZ and
//! Vega-Lite), and to one offline HTML page.
//!
//! Pure: nothing here reads a file, a clock or the network, and equal data gives equal bytes. [`Figure`] and [`Page`]
//! are the input; [`svg`], [`pdf`], [`tikz`], [`vega_lite`] and [`page`]
//! render them and refuse what cannot be drawn with a [`PlotError`].

mod document;
mod draw;
mod escape;
mod marks;
mod model;
mod page;
mod palette;
mod pdf;
mod plan;
mod scale;
mod scene;
mod svg;
mod text;
mod tikz;
mod validate;
mod vega;

pub use document::{Block, Chip, Claim, Column, Fact, Note, Page, Section, Table, Tile, Tone, Verdict};
pub use escape::escape;
pub use model::{
    Axis, Bar, BarSeries, BoxMark, BoxSeries, Cell, Event, Figure, HeatPanel, Hover, Panel, Plot, Point, Series, Trace,
};
pub use palette::{COLOURS, DARK, LIGHT, Rgb, Theme, contrast, heat};
pub use scale::{Bands, Ends, Scale, Tick};
pub use validate::{
    MAX_CATEGORIES, MAX_MAGNITUDE, MAX_PANELS, MAX_POINTS, MAX_SERIES, MIN_POSITIVE, PlotError, check_figure,
    check_page,
};

/// Width of a figure on paper. Text is 8 points high in both.
///
/// Each is the least among the templates with two columns, so that a figure fits into all of them unscaled. A column
/// is 84.7 mm wide with USENIX (3 1/3 inches), 84.8 mm with ACM's `sigconf` and 88.6 mm with IEEE; the text is 177.8
/// mm, 177.9 mm and 181.4 mm wide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// One of two columns: 240 points, 84.7 mm; panels below one another.
    Column,
    /// Both columns: 504 points, 177.8 mm; panels side by side.
    Text,
}

impl Width {
    /// Returns the width in points of 1/72 inch.
    pub fn points(self) -> f64 {
        match self {
            Width::Column => 240.0,
            Width::Text => 504.0,
        }
    }
}

/// Plot area of a panel within its drawing, and the positions of its marks.
#[derive(Clone, PartialEq, Debug)]
pub struct Area {
    /// Left edge, top edge, width and height in the units of the drawing.
    pub area: [f64; 4],
    /// Left edge, top edge, width and height of each mark as fractions of the plot area.
    pub marks: Vec<[f64; 4]>,
}

/// Renders a figure as an SVG file in the colours for paper.
pub fn svg(figure: &Figure, width: Width) -> Result<String, PlotError> {
    check_figure(figure)?;
    let plan = plan::Plan::new(figure);
    let drawing = draw::draw(&plan, width.points() * svg::PIXELS_PER_POINT);
    Ok(svg::file(&drawing.scene, &figure.title, &figure.caption, width.points()))
}

/// Renders a figure as a single-page PDF of the figure's size.
pub fn pdf(figure: &Figure, width: Width) -> Result<Vec<u8>, PlotError> {
    check_figure(figure)?;
    let plan = plan::Plan::new(figure);
    let drawing = draw::draw(&plan, width.points() * svg::PIXELS_PER_POINT);
    Ok(pdf::file(&drawing.scene, &figure.title, &figure.caption, width.points()))
}

/// Renders a figure as a TikZ picture for the TeX package pgfplots, in the same size and with the same ticks as
/// [`pdf`], and with the values as tables. The first lines of the file name the packages that it needs.
pub fn tikz(figure: &Figure, width: Width) -> Result<String, PlotError> {
    check_figure(figure)?;
    let plan = plan::Plan::new(figure);
    let drawing = draw::draw(&plan, width.points() * svg::PIXELS_PER_POINT);
    Ok(tikz::picture(&plan, &drawing, width))
}

/// Renders a figure as a Vega-Lite 5 specification, with the values in it.
pub fn vega_lite(figure: &Figure, width: Width) -> Result<String, PlotError> {
    check_figure(figure)?;
    let plan = plan::Plan::new(figure);
    let drawing = draw::draw(&plan, width.points() * svg::PIXELS_PER_POINT);
    Ok(vega::specification(&plan, &drawing, width))
}

/// Renders a page with its figures: one HTML file without external references.
pub fn page(page: &Page) -> Result<String, PlotError> {
    check_page(page)?;
    Ok(page::render(page))
}

/// Returns the plot area of each panel, as drawn by `svg`.
pub fn areas(figure: &Figure, width: Width) -> Result<Vec<Area>, PlotError> {
    check_figure(figure)?;
    let plan = plan::Plan::new(figure);
    let drawing = draw::draw(&plan, width.points() * svg::PIXELS_PER_POINT);
    let marks = marks::marks(&plan);
    let area = |(frame, marks): (&draw::Frame, Vec<marks::Mark>)| Area {
        area: [frame.x, frame.y, frame.width, frame.height],
        marks: marks.into_iter().map(|mark| mark.area).collect(),
    };
    Ok(drawing.frames.iter().zip(marks).map(area).collect())
}
