//! Plain data of a figure. `validate` checks whether it can be drawn.

/// Quantity along one side of a plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    pub label: String,
    /// Unit; empty for counts and categories.
    pub unit: String,
    /// Whether the axis is logarithmic, so that every value must be positive, or 0 if it has a place. Ignored by
    /// category axes.
    pub log: bool,
    /// Whether it starts at 0 even if all values are far from it. Ignored by logarithmic and horizontal axes.
    pub from_zero: bool,
    /// Whether a logarithmic axis has a place for 0, apart from the others behind a break.
    pub zero_place: bool,
}

impl Axis {
    /// Creates a linear axis.
    pub fn new(label: &str, unit: &str) -> Axis {
        Axis { label: label.into(), unit: unit.into(), log: false, from_zero: false, zero_place: false }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: &str, unit: &str) -> Axis {
        Axis { log: true, ..Axis::new(label, unit) }
    }

    /// Creates a linear axis that starts at 0.
    pub fn from_zero(label: &str, unit: &str) -> Axis {
        Axis { from_zero: true, ..Axis::new(label, unit) }
    }

    /// Returns the label with its unit in brackets.
    pub fn title(&self) -> String {
        if self.unit.is_empty() { self.label.clone() } else { format!("{} ({})", self.label, self.unit) }
    }
}

/// Contents of a tooltip in addition to the value: further columns of the row, and the command that repeats it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Hover {
    pub rows: Vec<(String, String)>,
    pub command: Option<String>,
}

/// Value of a series at one position.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    pub x: f64,
    /// Value; `None` if the measurement failed: the line breaks, a cross at the bottom of the plot marks the position,
    /// and `hover` has the reason.
    pub y: Option<f64>,
    /// Interval of `x`, lower bound first. In a plot over time and in a histogram, the ends of the step.
    pub x_interval: Option<(f64, f64)>,
    /// Interval of `y`, lower bound first.
    pub y_interval: Option<(f64, f64)>,
    pub hover: Hover,
}

impl Point {
    /// Creates a point without intervals.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y: Some(y), x_interval: None, y_interval: None, hover: Hover::default() }
    }

    /// Creates a point for a failed measurement.
    pub fn failed(x: f64, reason: &str) -> Point {
        let hover = Hover { rows: vec![("failed".into(), reason.into())], command: None };
        Point { x, y: None, x_interval: None, y_interval: None, hover }
    }

    /// Sets the interval of `y`.
    pub fn between(mut self, low: f64, high: f64) -> Point {
        self.y_interval = Some((low, high));
        self
    }

    pub fn hover(mut self, hover: Hover) -> Point {
        self.hover = hover;
        self
    }
}

/// Style of the points of a curve or a line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Trace {
    /// Markers joined by a line.
    #[default]
    Joined,
    /// Line without markers, for a formula.
    Line,
    /// Markers with intervals and without a line, for measurements beside a formula.
    Marks,
    /// Hollow markers with intervals and without a line, for measurements of another kind.
    Hollow,
}

impl Trace {
    pub(crate) fn has_line(self) -> bool {
        matches!(self, Trace::Joined | Trace::Line)
    }
}

/// Points that belong together. Series of the same kin share a colour, even across panels.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Series {
    pub name: String,
    /// Colour group; if empty, the name.
    pub kin: String,
    pub trace: Trace,
    /// Whether it is quoted from a paper: drawn dashed and hollow, and labelled as such in the legend.
    pub paper: bool,
    /// Command of every point without one of its own.
    pub command: Option<String>,
    pub points: Vec<Point>,
}

/// Bar, or segment of a stacked bar.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    pub category: String,
    /// Value; `None` if the measurement failed.
    pub value: Option<f64>,
    /// Interval, lower bound first.
    pub interval: Option<(f64, f64)>,
    pub hover: Hover,
}

impl Bar {
    /// Creates a bar without an interval.
    pub fn new(category: &str, value: f64) -> Bar {
        Bar { category: category.into(), value: Some(value), interval: None, hover: Hover::default() }
    }
}

/// One bar per category.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct BarSeries {
    pub name: String,
    /// Whether it is quoted from a paper.
    pub paper: bool,
    pub bars: Vec<Bar>,
}

/// Distribution as five numbers and the values beyond the whiskers.
#[derive(Clone, PartialEq, Debug)]
pub struct BoxMark {
    pub category: String,
    /// Ends of the lower whisker, the box (first quartile, median, third quartile) and the upper whisker, in order.
    pub summary: [f64; 5],
    pub outliers: Vec<f64>,
    pub hover: Hover,
}

impl BoxMark {
    /// Creates a box without extent, for a paper with a single number.
    pub fn single(category: &str, value: f64) -> BoxMark {
        BoxMark { category: category.into(), summary: [value; 5], outliers: Vec::new(), hover: Hover::default() }
    }

    /// Returns whether it has no extent.
    pub fn is_single(&self) -> bool {
        self.summary[0] == self.summary[4] && self.outliers.is_empty()
    }
}

/// One box per category.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct BoxSeries {
    pub name: String,
    /// Whether it is quoted from a paper.
    pub paper: bool,
    pub boxes: Vec<BoxMark>,
}

/// Field of a heat map.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// Index into `HeatPanel::columns`.
    pub column: usize,
    /// Index into `HeatPanel::rows`.
    pub row: usize,
    /// Value; `None` if the measurement failed.
    pub value: Option<f64>,
    pub hover: Hover,
}

/// Heat map. Fields without a cell stay empty.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct HeatPanel {
    pub title: String,
    /// Whether it is quoted from a paper: its fields have dashed outlines.
    pub paper: bool,
    /// Column names, left to right.
    pub columns: Vec<String>,
    /// Row names, bottom to top, as on a numeric axis.
    pub rows: Vec<String>,
    pub cells: Vec<Cell>,
}

/// One of the plots of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel<T> {
    pub title: String,
    /// The panel's own vertical axis; `None` for the figure's, whose scale all such panels share.
    pub y: Option<Axis>,
    pub series: Vec<T>,
}

impl<T> Panel<T> {
    /// Creates a panel on the figure's axes.
    pub fn new(title: &str, series: Vec<T>) -> Panel<T> {
        Panel { title: title.into(), y: None, series }
    }
}

/// Marked moment or span of a plot over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Start, in the unit of the horizontal axis.
    pub from: f64,
    /// End of a span; `None` for a moment.
    pub to: Option<f64>,
    pub label: String,
}

/// Kind of a figure, with its data.
#[derive(Clone, PartialEq, Debug)]
pub enum Plot {
    /// Points joined in the given order, such as latency against throughput under rising load.
    Curve(Vec<Panel<Series>>),
    /// Points joined in the order of `x`.
    Line(Vec<Panel<Series>>),
    /// Sampled requests, up to `MAX_POINTS`.
    Scatter(Vec<Panel<Series>>),
    /// Series over time. Each point is the start of a step that ends with its `x_interval`, or at the next point.
    Time {
        panels: Vec<Panel<Series>>,
        events: Vec<Event>,
    },
    /// Shares by ranges of a quantity: each point fills its `x_interval` from 0 upwards.
    Histogram {
        panels: Vec<Panel<Series>>,
        /// Marked values of the quantity.
        marks: Vec<Event>,
    },
    Bars(Vec<Panel<BarSeries>>),
    /// Each series is a segment of every bar, the first one at the bottom.
    Stacked(Vec<Panel<BarSeries>>),
    Boxes(Vec<Panel<BoxSeries>>),
    /// Heat map; `value` is the quantity shown by the colours.
    Heat {
        value: Axis,
        panels: Vec<HeatPanel>,
    },
}

impl Plot {
    /// Returns whether points are steps with a beginning and an end.
    pub(crate) fn has_steps(&self) -> bool {
        matches!(self, Plot::Time { .. } | Plot::Histogram { .. })
    }
}

/// Figure of one or more panels.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Identifier of letters, digits, `-`, `_` and `.`; unique in a page, and valid as a file name.
    pub id: String,
    pub title: String,
    /// Sentences below the figure; may be empty.
    pub caption: String,
    pub x: Axis,
    pub y: Axis,
    pub plot: Plot,
}
