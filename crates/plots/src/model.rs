//! Plain data of a figure. Nothing in here is drawn yet; `validate` says whether it can be.

/// Quantity along one side of a plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    pub label: String,
    /// Empty for counts and categories.
    pub unit: String,
    /// Logarithmic, so that every value must be positive. Ignored by axes of categories.
    pub log: bool,
}

impl Axis {
    /// Creates a linear axis.
    pub fn new(label: &str, unit: &str) -> Axis {
        Axis { label: label.into(), unit: unit.into(), log: false }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: &str, unit: &str) -> Axis {
        Axis { log: true, ..Axis::new(label, unit) }
    }

    /// Returns the label with its unit in brackets.
    pub fn title(&self) -> String {
        if self.unit.is_empty() { self.label.clone() } else { format!("{} ({})", self.label, self.unit) }
    }
}

/// What a tooltip says in addition to the value: further columns of the row, and the command that repeats it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Hover {
    pub rows: Vec<(String, String)>,
    pub command: Option<String>,
}

/// Value of a series at one place.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    pub x: f64,
    /// `None` if the measurement failed: the line breaks, a cross at the foot of the plot marks the place, and `hover`
    /// has the reason.
    pub y: Option<f64>,
    /// Interval of `x`, lower bound first.
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

    /// Creates the place of a failed measurement.
    pub fn failed(x: f64, reason: &str) -> Point {
        let hover = Hover { rows: vec![("failed".into(), reason.into())], command: None };
        Point { x, y: None, x_interval: None, y_interval: None, hover }
    }

    /// Sets the interval of `y`.
    pub fn between(mut self, low: f64, high: f64) -> Point {
        self.y_interval = Some((low, high));
        self
    }

    /// Sets the tooltip.
    pub fn hover(mut self, hover: Hover) -> Point {
        self.hover = hover;
        self
    }
}

/// Points that belong together. Series with the same name share a colour, also across panels.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Series {
    pub name: String,
    /// Quoted from a paper: drawn dashed and hollow, and named so in the legend.
    pub paper: bool,
    /// Command of every point that has none itself.
    pub command: Option<String>,
    pub points: Vec<Point>,
}

/// Bar, or segment of a stacked bar.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    pub category: String,
    /// `None` if the measurement failed.
    pub value: Option<f64>,
    /// Lower bound first.
    pub interval: Option<(f64, f64)>,
    pub hover: Hover,
}

impl Bar {
    /// Creates a bar without an interval.
    pub fn new(category: &str, value: f64) -> Bar {
        Bar { category: category.into(), value: Some(value), interval: None, hover: Hover::default() }
    }
}

/// One bar for each category.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct BarSeries {
    pub name: String,
    /// Quoted from a paper.
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

/// One box for each category.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct BoxSeries {
    pub name: String,
    /// Quoted from a paper.
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
    /// `None` if the measurement failed.
    pub value: Option<f64>,
    pub hover: Hover,
}

/// Heat map. Fields without a cell stay empty.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct HeatPanel {
    pub title: String,
    /// From left to right.
    pub columns: Vec<String>,
    /// From bottom to top, as on a numeric axis.
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
    /// In the unit of the horizontal axis.
    pub from: f64,
    /// End of a span; `None` for a moment.
    pub to: Option<f64>,
    pub label: String,
}

/// Kind of a figure, with its data.
#[derive(Clone, PartialEq, Debug)]
pub enum Plot {
    /// Points joined in the order given, as in latency against throughput under rising load.
    Curve(Vec<Panel<Series>>),
    /// Points joined by rising `x`.
    Line(Vec<Panel<Series>>),
    /// Single requests, up to `MAX_POINTS`.
    Scatter(Vec<Panel<Series>>),
    /// Series over time, each point being the start of a step as long as the distance to the next one.
    Time {
        panels: Vec<Panel<Series>>,
        events: Vec<Event>,
    },
    Bars(Vec<Panel<BarSeries>>),
    /// Each series is a segment of every bar, the first one at the foot.
    Stacked(Vec<Panel<BarSeries>>),
    Boxes(Vec<Panel<BoxSeries>>),
    /// `value` is the quantity that the colours show.
    Heat {
        value: Axis,
        panels: Vec<HeatPanel>,
    },
}

/// Figure of one or more panels.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Letters, digits, `-`, `_` and `.`; unique in a page, and fit for a file name.
    pub id: String,
    pub title: String,
    /// Sentences below the figure; may be empty.
    pub caption: String,
    pub x: Axis,
    pub y: Axis,
    pub plot: Plot,
}
