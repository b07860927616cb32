//! Layout of a figure as fractions of each panel's plot area: scales, styles of series, and the marks named in
//! tooltips. Sizes follow later, in `draw`, so that a wide and a narrow drawing of a figure agree on all of this.

use crate::model::{Axis, BarSeries, BoxSeries, Event, Figure, HeatPanel, Panel, Plot, Point, Series, Trace};
use crate::palette::COLOURS;
use crate::scale::{Bands, Ends, MAX_VALUES_LABELLED, Scale};
use crate::scene::Dash;

/// Fraction of a band filled by its bars or boxes.
const FILLED: f64 = 0.76;
/// Fraction of its own share that a bar or box fills if a band has several.
const OWN: f64 = 0.92;
/// Maximum width of a single bar or box, as a fraction of the plot.
const MAX_BAR: f64 = 0.14;

/// Shape that marks the points of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    TriangleDown,
    Pentagon,
}

/// Markers in the order of assignment. Their number differs from the number of colours, so that series with the same
/// colour have different markers.
pub(crate) const MARKERS: [Marker; 6] =
    [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::TriangleDown, Marker::Pentagon];

/// Dash patterns of lines without markers, in the order of assignment. None equals the paper's.
const DASHES: [Dash; 6] =
    [Dash::Solid, Dash::LongDashed, Dash::Dotted, Dash::Alternating, Dash::Fine, Dash::LongDashDotted];

/// Lines across an area, which distinguish areas printed in grey.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hatch {
    Plain,
    Rising,
    Falling,
    Lying,
    Upright,
    Crossed,
}

const HATCHES: [Hatch; 6] = [Hatch::Plain, Hatch::Rising, Hatch::Falling, Hatch::Lying, Hatch::Crossed, Hatch::Upright];

/// Appearance of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    pub index: usize,
    pub paper: bool,
    pub trace: Trace,
}

impl Look {
    pub(crate) fn marker(self) -> Marker {
        MARKERS[self.index % MARKERS.len()]
    }

    /// Returns the dash pattern of its line. Markers tell lines apart, so only lines without them differ.
    pub(crate) fn dash(self, has_markers: bool) -> Dash {
        match (self.paper, has_markers) {
            (true, _) => Dash::Dashed,
            (false, true) => Dash::Solid,
            (false, false) => DASHES[self.index % DASHES.len()],
        }
    }

    pub(crate) fn hatch(self) -> Hatch {
        HATCHES[self.index % HATCHES.len()]
    }

    pub(crate) fn colour(self) -> usize {
        self.index % COLOURS
    }

    /// Returns whether an earlier series has the same colour.
    pub(crate) fn repeats_a_colour(self) -> bool {
        self.index >= COLOURS
    }
}

/// Line of the legend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub look: Look,
}

/// Horizontal or vertical axis of a panel.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Side {
    Numbers(Scale),
    Names(Bands),
}

/// Panel with its axes.
pub(crate) struct PanelPlan<'a> {
    pub title: &'a str,
    pub x: Side,
    pub y: Side,
    pub y_axis: &'a Axis,
    /// Whether the vertical axis is the panel's own.
    pub own_y: bool,
    pub content: Content<'a>,
}

/// Contents of a panel.
pub(crate) enum Content<'a> {
    Series(Vec<(&'a Series, Look)>),
    Bars(Vec<(&'a BarSeries, Look)>),
    Stacked(Vec<(&'a BarSeries, Look)>),
    Boxes(Vec<(&'a BoxSeries, Look)>),
    Heat(&'a HeatPanel),
}

/// Figure with scales and styles.
pub(crate) struct Plan<'a> {
    pub figure: &'a Figure,
    pub panels: Vec<PanelPlan<'a>>,
    pub legend: Vec<Entry>,
    pub events: &'a [Event],
    /// Scale of the colours of heat maps, with their quantity.
    pub heat: Option<(&'a Axis, Scale)>,
}

impl<'a> Plan<'a> {
    /// Returns the position of a series in the legend; `None` without a legend.
    pub(crate) fn entry(&self, look: Look) -> Option<usize> {
        self.legend.iter().position(|entry| entry.look == look)
    }

    /// Returns whether the lines of the figure have markers.
    pub(crate) fn has_markers(&self, trace: Trace) -> bool {
        trace != Trace::Line && !matches!(self.figure.plot, Plot::Time { .. })
    }

    /// Plans a figure accepted by `check_figure`.
    pub(crate) fn new(figure: &'a Figure) -> Plan<'a> {
        let empty = |panels, legend| Plan { figure, panels, legend, events: &[], heat: None };
        match &figure.plot {
            Plot::Curve(panels) | Plot::Scatter(panels) | Plot::Line(panels) => {
                let (panels, legend) = plan_series(figure, panels, &[]);
                empty(panels, legend)
            }
            Plot::Time { panels, events } | Plot::Histogram { panels, marks: events } => {
                let (panels, legend) = plan_series(figure, panels, events);
                Plan { events, ..empty(panels, legend) }
            }
            Plot::Bars(panels) => {
                let (panels, legend) = plan_bars(figure, panels, false);
                empty(panels, legend)
            }
            Plot::Stacked(panels) => {
                let (panels, legend) = plan_bars(figure, panels, true);
                empty(panels, legend)
            }
            Plot::Boxes(panels) => {
                let (panels, legend) = plan_boxes(figure, panels);
                empty(panels, legend)
            }
            Plot::Heat { value, panels } => {
                let values = panels.iter().flat_map(|panel| &panel.cells).filter_map(|cell| cell.value);
                let scale = Scale::covering(values, value.log, Ends::Exact, false);
                let panels = panels.iter().map(|panel| PanelPlan {
                    title: &panel.title,
                    x: Side::Names(Bands { names: panel.columns.clone() }),
                    y: Side::Names(Bands { names: panel.rows.clone() }),
                    y_axis: &figure.y,
                    own_y: false,
                    content: Content::Heat(panel),
                });
                Plan { heat: Some((value, scale)), ..empty(panels.collect(), Vec::new()) }
            }
        }
    }
}

/// Assigns looks: one per kin, in order of appearance.
#[derive(Default)]
struct Looks {
    kins: Vec<String>,
    legend: Vec<Entry>,
}

impl Looks {
    /// Returns the look of bars or boxes.
    fn of(&mut self, name: &str, paper: bool) -> Look {
        self.of_kin(name, name, paper, Trace::default())
    }

    fn of_series(&mut self, series: &Series) -> Look {
        let kin = if series.kin.is_empty() { &series.name } else { &series.kin };
        self.of_kin(&series.name, kin, series.paper, series.trace)
    }

    fn of_kin(&mut self, name: &str, kin: &str, paper: bool, trace: Trace) -> Look {
        let index = self.kins.iter().position(|known| known == kin).unwrap_or_else(|| {
            self.kins.push(kin.into());
            self.kins.len() - 1
        });
        let look = Look { index, paper, trace };
        if !self.legend.iter().any(|entry| entry.look == look) {
            self.legend.push(Entry { name: shown_name(name, paper), look });
        }
        look
    }

    /// Returns the legend; empty if it would be redundant.
    fn legend(self) -> Vec<Entry> {
        if self.legend.iter().all(|entry| entry.name.is_empty()) { Vec::new() } else { self.legend }
    }
}

/// Returns the name of a series in legends and tooltips.
pub(crate) fn shown_name(name: &str, paper: bool) -> String {
    match (name.is_empty(), paper) {
        (false, true) => format!("{name} (paper)"),
        (true, true) => "paper".into(),
        (_, false) => name.into(),
    }
}

/// Returns the vertical scale of each panel: its own, or the one shared by all panels without one.
fn vertical<T>(figure: &Figure, panels: &[Panel<T>], zero: bool, values: impl Fn(&Panel<T>) -> Vec<f64>) -> Vec<Scale> {
    let common = panels.iter().filter(|panel| panel.y.is_none()).flat_map(&values);
    let common = Scale::covering(common, figure.y.log, Ends::Round, zero || figure.y.from_zero);
    let own = |panel: &Panel<T>| match &panel.y {
        Some(axis) => Scale::covering(values(panel).into_iter(), axis.log, Ends::Round, zero || axis.from_zero),
        None => common.clone(),
    };
    panels.iter().map(own).collect()
}

fn plan_series<'a>(
    figure: &'a Figure,
    panels: &'a [Panel<Series>],
    events: &[Event],
) -> (Vec<PanelPlan<'a>>, Vec<Entry>) {
    let points = || panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
    let across =
        points().flat_map(|point| [Some(point.x), point.x_interval.map(|i| i.0), point.x_interval.map(|i| i.1)]);
    let steps = panels.iter().flat_map(|panel| &panel.series).filter(|_| figure.plot.has_steps());
    let steps = steps.filter_map(|series| Some(Some(step_end(&series.points, series.points.len().checked_sub(1)?))));
    let moments = events.iter().flat_map(|event| [Some(event.from), event.to]);
    let ends = if figure.plot.has_steps() { Ends::Exact } else { Ends::Padded };
    let mut x = Scale::covering(across.chain(moments).chain(steps).flatten(), figure.x.log, ends, false);
    if matches!(figure.plot, Plot::Line(_)) {
        let mut distinct: Vec<f64> = points().map(|point| point.x).collect();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        if (2..=MAX_VALUES_LABELLED).contains(&distinct.len()) {
            x = x.with_ticks_at(&distinct);
        }
    }
    let zero = matches!(figure.plot, Plot::Histogram { .. });
    let scales = vertical(figure, panels, zero, |panel| {
        let points = panel.series.iter().flat_map(|series| &series.points);
        points.flat_map(|p| [p.y, p.y_interval.map(|i| i.0), p.y_interval.map(|i| i.1)]).flatten().collect()
    });
    let mut looks = Looks::default();
    let plan = |(panel, y): (&'a Panel<Series>, Scale)| PanelPlan {
        title: &panel.title,
        x: Side::Numbers(x.clone()),
        y: Side::Numbers(y),
        y_axis: panel.y.as_ref().unwrap_or(&figure.y),
        own_y: panel.y.is_some(),
        content: Content::Series(panel.series.iter().map(|series| (series, looks.of_series(series))).collect()),
    };
    let panels = panels.iter().zip(scales).map(plan).collect();
    (panels, looks.legend())
}

fn plan_bars<'a>(
    figure: &'a Figure,
    panels: &'a [Panel<BarSeries>],
    stacked: bool,
) -> (Vec<PanelPlan<'a>>, Vec<Entry>) {
    let bands = |panel: &Panel<BarSeries>| {
        Bands::of(panel.series.iter().flat_map(|series| &series.bars).map(|bar| bar.category.as_str()))
    };
    let scales = vertical(figure, panels, !figure.y.log, |panel| match stacked {
        true => {
            bands(panel).names.iter().flat_map(|name| stack(&panel.series, name)).map(|segment| segment.1).collect()
        }
        false => {
            let bars = panel.series.iter().flat_map(|series| &series.bars);
            bars.flat_map(|bar| [bar.value, bar.interval.map(|i| i.0), bar.interval.map(|i| i.1)]).flatten().collect()
        }
    });
    let mut looks = Looks::default();
    let plan = |(panel, y): (&'a Panel<BarSeries>, Scale)| {
        let series = panel.series.iter().map(|series| (series, looks.of(&series.name, series.paper))).collect();
        PanelPlan {
            title: &panel.title,
            x: Side::Names(bands(panel)),
            y: Side::Numbers(y),
            y_axis: panel.y.as_ref().unwrap_or(&figure.y),
            own_y: panel.y.is_some(),
            content: if stacked { Content::Stacked(series) } else { Content::Bars(series) },
        }
    };
    let panels = panels.iter().zip(scales).map(plan).collect();
    (panels, looks.legend())
}

/// Returns the end of a point's step: the end of its interval, or the next point. The last step is as long as the
/// previous one.
pub(crate) fn step_end(points: &[Point], at: usize) -> f64 {
    if let Some((_, end)) = points[at].x_interval {
        return end;
    }
    match (points.get(at + 1), at.checked_sub(1)) {
        (Some(next), _) => next.x,
        (None, Some(before)) => points[at].x + (points[at].x - points[before].x).max(0.0),
        (None, None) => points[at].x,
    }
}

/// Returns the bottom and the top of each series' segment of a stacked bar; the paper's segments have a bar of their
/// own. A missing segment has no height.
pub(crate) fn stack(series: &[BarSeries], category: &str) -> Vec<(f64, f64)> {
    let mut tops = [0.0; 2];
    let segment = |series: &BarSeries| {
        let top = &mut tops[usize::from(series.paper)];
        let foot = *top;
        let bar = series.bars.iter().find(|bar| bar.category == category);
        *top += bar.and_then(|bar| bar.value).unwrap_or(0.0);
        (foot, *top)
    };
    series.iter().map(segment).collect()
}

/// Returns the left edge and the width of a stacked bar; the paper's bar is to the right of ours.
pub(crate) fn stack_slot(bands: &Bands, category: &str, series: &[BarSeries], paper: bool) -> (f64, f64) {
    let has_both = series.iter().any(|own| own.paper) && series.iter().any(|own| !own.paper);
    slot(bands, category, usize::from(has_both && paper), 1 + usize::from(has_both))
}

fn plan_boxes<'a>(figure: &'a Figure, panels: &'a [Panel<BoxSeries>]) -> (Vec<PanelPlan<'a>>, Vec<Entry>) {
    let scales = vertical(figure, panels, false, |panel| {
        let boxes = panel.series.iter().flat_map(|series| &series.boxes);
        boxes.flat_map(|mark| mark.summary.iter().chain(&mark.outliers).copied()).collect()
    });
    let mut looks = Looks::default();
    let plan = |(panel, y): (&'a Panel<BoxSeries>, Scale)| PanelPlan {
        title: &panel.title,
        x: Side::Names(Bands::of(
            panel.series.iter().flat_map(|series| &series.boxes).map(|mark| mark.category.as_str()),
        )),
        y: Side::Numbers(y),
        y_axis: panel.y.as_ref().unwrap_or(&figure.y),
        own_y: panel.y.is_some(),
        content: Content::Boxes(
            panel.series.iter().map(|series| (series, looks.of(&series.name, series.paper))).collect(),
        ),
    };
    let panels = panels.iter().zip(scales).map(plan).collect();
    (panels, looks.legend())
}

/// Returns the left edge and the width of a bar or box of one series among `count` in a band.
pub(crate) fn slot(bands: &Bands, category: &str, series: usize, count: usize) -> (f64, f64) {
    let count = count.max(1) as f64;
    let own = (bands.share() * FILLED / count).min(MAX_BAR);
    let left = bands.middle(bands.index(category)) - own * count / 2.0 + own * series as f64;
    let filled = if count > 1.0 { own * OWN } else { own };
    (left + (own - filled) / 2.0, filled)
}
