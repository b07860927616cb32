//! A drawing as a list of shapes, which the SVG and PDF writers convert to files. The unit is a CSS pixel; `y` points
//! down.

/// Role of a colour, whose appearance depends on the theme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Paint {
    /// Text and outlines.
    Ink,
    /// Secondary text.
    Soft,
    /// Axes.
    Rule,
    Grid,
    /// Background of the figure.
    Surface,
    /// Colour of a series, counted modulo the palette's length.
    Series(usize),
    Event,
    /// Failed measurements.
    Bad,
    /// A fixed colour, the same in every theme.
    Rgb([u8; 3]),
}

/// Dash pattern of a line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Dash {
    #[default]
    Solid,
    Dashed,
    Dotted,
    LongDashed,
    Alternating,
    Fine,
    LongDashDotted,
}

impl Dash {
    /// Returns the lengths of strokes and gaps; empty for a solid line.
    pub(crate) fn lengths(self) -> &'static [f64] {
        match self {
            Dash::Solid => &[],
            Dash::Dashed => &[5.0, 3.5],
            Dash::Dotted => &[1.5, 3.0],
            Dash::LongDashed => &[11.0, 4.0],
            Dash::Alternating => &[7.0, 3.0, 1.5, 3.0],
            Dash::Fine => &[2.5, 1.5],
            Dash::LongDashDotted => &[11.0, 3.0, 1.5, 3.0, 1.5, 3.0],
        }
    }
}

/// Fill and outline of a shape.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Style {
    pub fill: Option<Paint>,
    pub stroke: Option<Paint>,
    pub width: f64,
    pub dash: Dash,
    /// Opacity in percent.
    pub opacity: u8,
}

impl Style {
    pub(crate) fn fill(paint: Paint) -> Style {
        Style { fill: Some(paint), stroke: None, width: 0.0, dash: Dash::Solid, opacity: 100 }
    }

    pub(crate) fn stroke(paint: Paint, width: f64) -> Style {
        Style { fill: None, stroke: Some(paint), width, dash: Dash::Solid, opacity: 100 }
    }

    pub(crate) fn outlined(self, paint: Paint, width: f64) -> Style {
        Style { stroke: Some(paint), width, ..self }
    }

    pub(crate) fn dash(self, dash: Dash) -> Style {
        Style { dash, ..self }
    }

    pub(crate) fn opacity(self, opacity: u8) -> Style {
        Style { opacity, ..self }
    }
}

/// End of a line of text that is at its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Text {
    pub x: f64,
    /// Position of the baseline.
    pub y: f64,
    pub content: String,
    pub size: f64,
    pub bold: bool,
    pub anchor: Anchor,
    /// Rotation in degrees, clockwise.
    pub turn: f64,
    pub paint: Paint,
}

/// Shape, in drawing order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Shape {
    /// Lines through points; several lists for a path with gaps.
    Path {
        runs: Vec<Vec<(f64, f64)>>,
        closed: bool,
        style: Style,
    },
    Rectangle {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        style: Style,
    },
    Circle {
        x: f64,
        y: f64,
        radius: f64,
        style: Style,
    },
    /// Many discs of the same size and colour.
    Dots {
        places: Vec<(f64, f64)>,
        radius: f64,
        paint: Paint,
        opacity: u8,
    },
    Text(Text),
}

/// Shapes of one entry of the legend, which readers of a page can hide.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    /// Positions of its shapes in [`Scene::shapes`].
    pub shapes: std::ops::Range<usize>,
    /// Position of the entry in the legend.
    pub entry: usize,
    /// Whether it is the legend's own line rather than data.
    pub is_key: bool,
}

/// Finished drawing.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Scene {
    pub width: f64,
    pub height: f64,
    pub shapes: Vec<Shape>,
    /// Groups in the order of their shapes, none within another.
    pub groups: Vec<Group>,
}

impl Scene {
    /// Draws shapes that belong to an entry of the legend, if there is one.
    pub(crate) fn group(&mut self, entry: Option<usize>, is_key: bool, draw: impl FnOnce(&mut Scene)) {
        let first = self.shapes.len();
        draw(self);
        if let Some(entry) = entry.filter(|_| self.shapes.len() > first) {
            self.groups.push(Group { shapes: first..self.shapes.len(), entry, is_key });
        }
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), style: Style) {
        self.shapes.push(Shape::Path { runs: vec![vec![from, to]], closed: false, style });
    }

    pub(crate) fn rectangle(&mut self, corner: (f64, f64), size: (f64, f64), style: Style) {
        let ((x, y), (width, height)) = (corner, size);
        self.shapes.push(Shape::Rectangle { x, y, width, height, style });
    }

    /// Adds a line of text, unless it is empty.
    pub(crate) fn text(&mut self, text: Text) {
        if !text.content.is_empty() {
            self.shapes.push(Shape::Text(text));
        }
    }

    /// Adds a cross with arms of `radius`.
    pub(crate) fn cross(&mut self, (x, y): (f64, f64), radius: f64, style: Style) {
        let arms = [
            vec![(x - radius, y - radius), (x + radius, y + radius)],
            vec![(x - radius, y + radius), (x + radius, y - radius)],
        ];
        self.shapes.push(Shape::Path { runs: arms.into(), closed: false, style });
    }
}
