//! Drawings are well-formed, stay within their bounds, and show each value at its position on the scale.

use quorate_plots::{
    Axis, Bar, BarSeries, Block, BoxMark, BoxSeries, COLOURS, Figure, HeatPanel, LIGHT, Page, Panel, Plot, Point,
    Section, Series, Trace, Width, areas, svg,
};
use roxmltree::{Document, Node};

use crate::samples;

/// Widths tested.
const WIDTHS: [Width; 2] = [Width::Column, Width::Text];
/// Maximum distance that a marker or half of a line may extend beyond the drawing, in pixels.
const SLACK: f64 = 6.0;
/// Minimum width of an average character, relative to the font size.
const CHARACTER: f64 = 0.4;

fn number(node: Node, name: &str) -> f64 {
    let text = node.attribute(name).unwrap_or_else(|| panic!("{} has no {name}", node.tag_name().name()));
    text.parse().unwrap_or_else(|_| panic!("{name}=\"{text}\" is not a number"))
}

/// Returns the points of a path made of absolute moves and lines.
fn points(path: &str) -> Vec<(f64, f64)> {
    let steps = path.split(['M', 'L']).filter(|step| !step.is_empty());
    let point = |step: &str| {
        let (x, y) = step.trim_end_matches('Z').trim_end_matches("h0").split_once(' ').expect("two coordinates");
        (x.parse().expect("a number"), y.parse().expect("a number"))
    };
    steps.map(point).collect()
}

/// Returns the points covered by an element.
fn places(node: Node) -> Vec<(f64, f64)> {
    match node.tag_name().name() {
        "path" => points(node.attribute("d").expect("a path has data")),
        "circle" => vec![(number(node, "cx"), number(node, "cy"))],
        "rect" => {
            let (x, y) = (number(node, "x"), number(node, "y"));
            let (width, height) = (number(node, "width"), number(node, "height"));
            assert!(width >= 0.0 && height >= 0.0, "a rectangle of {width} by {height}");
            vec![(x, y), (x + width, y + height)]
        }
        "text" => vec![(number(node, "x"), number(node, "y"))],
        _ => Vec::new(),
    }
}

fn view(document: &Document) -> (f64, f64) {
    let text = document.root_element().attribute("viewBox").expect("a drawing has a view box");
    let numbers: Vec<f64> = text.split(' ').map(|part| part.parse().expect("a number")).collect();
    (numbers[2], numbers[3])
}

/// Calls `look` with each sample, its width and its parsed drawing.
fn each(figures: &[Figure], look: impl Fn(&Figure, Width, &Document)) {
    for figure in figures {
        for width in WIDTHS {
            let text = svg(figure, width).unwrap_or_else(|error| panic!("{error}"));
            let document = Document::parse(&text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", figure.id));
            look(figure, width, &document);
        }
    }
}

fn no_element_leaves(document: &Document, what: &str) {
    let (width, height) = view(document);
    for node in document.descendants().filter(Node::is_element) {
        for (x, y) in places(node) {
            let inside = (-SLACK..=width + SLACK).contains(&x) && (-SLACK..=height + SLACK).contains(&y);
            assert!(inside, "{what}: {} at {x}, {y} of {width} by {height}", node.tag_name().name());
        }
    }
}

/// Returns each upright line of text with its left and right end; its estimated width is a lower bound.
fn lines<'a>(document: &'a Document) -> Vec<(f64, f64, f64, &'a str)> {
    let upright =
        document.descendants().filter(|node| node.has_tag_name("text") && node.attribute("transform").is_none());
    let line = |node: Node<'a, 'a>| {
        let text = node.text().unwrap_or("");
        let (x, width) = (number(node, "x"), text.chars().count() as f64 * number(node, "font-size") * CHARACTER);
        let left = match node.attribute("text-anchor") {
            Some("middle") => x - width / 2.0,
            Some("end") => x - width,
            _ => x,
        };
        (left, left + width, number(node, "y"), text)
    };
    upright.map(line).collect()
}

fn no_text_overlaps(document: &Document, what: &str) {
    let (width, _) = view(document);
    let lines = lines(document);
    for (at, (left, right, y, text)) in lines.iter().enumerate() {
        assert!(
            *left >= -SLACK && *right <= width + SLACK,
            "{what}: `{text}` reaches from {left} to {right} of {width}"
        );
        for (other_left, other_right, other_y, other) in &lines[at + 1..] {
            let apart = right < other_left || other_right < left || (y - other_y).abs() > 9.0;
            assert!(apart, "{what}: `{text}` overlaps `{other}`");
        }
    }
}

#[test]
fn every_kind_is_well_formed_and_within_its_bounds() {
    each(&samples::all(), |figure, width, document| {
        let what = format!("{} at {width:?}", figure.id);
        assert_eq!(document.root_element().attribute("width"), Some(format!("{}pt", width.points()).as_str()));
        no_element_leaves(document, &what);
        no_text_overlaps(document, &what);
    });
}

#[test]
fn every_value_has_a_mark_inside_the_plot_area() {
    for figure in samples::all() {
        for width in WIDTHS {
            let areas = areas(&figure, width).expect("samples can be drawn");
            assert!(areas.iter().map(|area| area.marks.len()).sum::<usize>() >= 10, "{}", figure.id);
            for mark in areas.iter().flat_map(|area| &area.marks) {
                let [left, top, width, height] = *mark;
                let inside = left >= 0.0 && top >= 0.0 && left + width <= 1.0 + 1e-9 && top + height <= 1.0 + 1e-9;
                assert!(inside, "{}: {mark:?}", figure.id);
            }
        }
    }
}

#[test]
fn plot_areas_are_large_and_apart() {
    for figure in samples::all() {
        for width in WIDTHS {
            let areas: Vec<[f64; 4]> =
                areas(&figure, width).expect("can be drawn").into_iter().map(|a| a.area).collect();
            for (at, [x, y, across, down]) in areas.iter().enumerate() {
                assert!(*across > 100.0 && *down > 100.0, "{}: {across} by {down}", figure.id);
                for [x2, y2, across2, down2] in &areas[at + 1..] {
                    let apart = x + across < *x2 || x2 + across2 < *x || y + down < *y2 || y2 + down2 < *y;
                    assert!(apart, "{}: two areas overlap", figure.id);
                }
            }
        }
    }
}

/// Returns the colour of series `index` on paper.
fn colour(index: usize) -> String {
    let [red, green, blue] = LIGHT.series[index];
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[test]
fn points_are_drawn_where_their_marks_are() {
    let figure = samples::curve();
    let text = svg(&figure, Width::Text).expect("can be drawn");
    let document = Document::parse(&text).expect("is XML");
    let area = &areas(&figure, Width::Text).expect("can be drawn")[0];
    let [x, y, width, height] = area.area;
    let filled = |node: &Node| node.has_tag_name("circle") && node.attribute("fill") == Some(colour(0).as_str());
    // The legend, above the plot, also has one of them.
    let drawn: Vec<(f64, f64)> =
        document.descendants().filter(filled).flat_map(places).filter(|place| place.1 > y).collect();
    assert_eq!(drawn.len(), 8);
    for ((drawn_x, drawn_y), [left, top, ..]) in drawn.into_iter().zip(&area.marks) {
        assert!((drawn_x - x - left * width).abs() < 0.01 && (drawn_y - y - top * height).abs() < 0.01);
    }
}

#[test]
fn bars_are_as_long_as_their_values() {
    let series = BarSeries {
        name: "ours".into(),
        paper: false,
        bars: vec![Bar::new("a", 10.0), Bar::new("b", 30.0), Bar::new("c", 60.0)],
    };
    let plot = Plot::Bars(vec![Panel::new("", vec![series])]);
    let figure = Figure { plot, x: Axis::new("", ""), ..samples::bars() };
    let text = svg(&figure, Width::Text).expect("can be drawn");
    let document = Document::parse(&text).expect("is XML");
    let [_, y, _, height] = areas(&figure, Width::Text).expect("can be drawn")[0].area;
    let bars = document.descendants().filter(|node| node.attribute("fill") == Some(colour(0).as_str()));
    let heights: Vec<f64> = bars.filter(|bar| number(*bar, "y") + 1.0 > y).map(|bar| number(bar, "height")).collect();
    let whole = heights[2];
    assert!((heights[0] - whole / 6.0).abs() < 0.05 && (heights[1] - whole / 2.0).abs() < 0.05, "{heights:?}");
    assert!((whole - height).abs() < 0.05, "60 is the end of the axis: {whole} of {height}");
}

#[test]
fn values_from_a_paper_are_dashed_hollow_and_named() {
    let all =
        [samples::curve(), samples::line(), samples::boxes(), samples::bars(), samples::stacked(), samples::heat()];
    for figure in all {
        let drawn = svg(&figure, Width::Text).expect("can be drawn");
        assert!(drawn.contains("(paper)</text>") || drawn.contains(">paper</text>"), "{}", figure.id);
        assert!(drawn.contains("stroke-dasharray"), "{}", figure.id);
        let mut ours = figure.clone();
        match &mut ours.plot {
            Plot::Curve(panels) | Plot::Line(panels) => {
                panels.iter_mut().flat_map(|panel| &mut panel.series).for_each(|series| series.paper = false);
            }
            Plot::Boxes(panels) => panels[0].series.iter_mut().for_each(|series| series.paper = false),
            Plot::Bars(panels) => panels[0].series.iter_mut().for_each(|series| series.paper = false),
            Plot::Stacked(panels) => {
                panels.iter_mut().flat_map(|panel| &mut panel.series).for_each(|series| series.paper = false);
            }
            Plot::Heat { panels, .. } => panels.iter_mut().for_each(|panel| panel.paper = false),
            _ => unreachable!("these six have values from a paper"),
        }
        let drawn = svg(&ours, Width::Text).expect("can be drawn");
        assert!(!drawn.contains("(paper)") && !drawn.contains("stroke-dasharray"), "{}", figure.id);
    }
}

/// A formula is a line without markers; measurements beside it are markers without a line, in the same colour.
#[test]
fn formulas_are_lines_and_measurements_beside_them_marks() {
    let series = |name: &str, kin: &str, trace| Series {
        name: name.into(),
        kin: kin.into(),
        trace,
        points: (1..5).map(|at| Point::new(f64::from(at), f64::from(at)).between(0.5, 6.0)).collect(),
        ..Series::default()
    };
    let drawn = |series: Vec<Series>| {
        let plot = Plot::Line(vec![Panel::new("", series)]);
        let (x, y) = (Axis::new("x", ""), Axis::new("y", ""));
        let figure = Figure { id: "traces".into(), title: "Traces".into(), caption: String::new(), x, y, plot };
        let text = svg(&figure, Width::Text).expect("can be drawn");
        let document = Document::parse(&text).expect("it is XML");
        let in_colour = |own: &Node| ["stroke", "fill"].map(|name| own.attribute(name)).contains(&Some(&colour(0)));
        let nodes: Vec<Node> = document.descendants().filter(in_colour).collect();
        let markers = nodes.iter().filter(|node| node.tag_name().name() == "circle").count();
        let lines = nodes.iter().filter(|node| {
            node.tag_name().name() == "path" && node.attribute("d").is_some_and(|path| points(path).len() == 4)
        });
        (markers, lines.count(), text.contains(&colour(1)))
    };
    let [joined, line, marks, hollow] =
        [Trace::Joined, Trace::Line, Trace::Marks, Trace::Hollow].map(|trace| series("n 4", "", trace));
    // Without names there is a legend only for several series.
    assert_eq!(drawn(vec![line.clone()]), (0, 1, false));
    let (markers, lines, _) = drawn(vec![marks.clone()]);
    assert!(markers >= 4 && lines == 0, "{markers} {lines}");
    let (markers, lines, _) = drawn(vec![hollow.clone()]);
    assert!(markers >= 4 && lines == 0, "{markers} {lines}");
    let filled = |series: Series| {
        let plot = Plot::Line(vec![Panel::new("", vec![series])]);
        let (x, y) = (Axis::new("x", ""), Axis::new("y", ""));
        let figure = Figure { id: "marks".into(), title: "Marks".into(), caption: String::new(), x, y, plot };
        let text = svg(&figure, Width::Text).expect("can be drawn");
        let document = Document::parse(&text).expect("it is XML");
        let circles = document.descendants().filter(|node| node.tag_name().name() == "circle");
        circles.filter(|node| node.attribute("fill") == Some(&colour(0))).count()
    };
    assert!(filled(marks) >= 4 && filled(hollow) == 0, "only marks of the first kind are filled");
    let (markers, lines, _) = drawn(vec![joined]);
    assert!(markers >= 4 && lines == 1, "{markers} {lines}");
    let both = vec![series("model", "n 4", Trace::Line), series("runs", "n 4", Trace::Marks)];
    let (markers, lines, other) = drawn(both);
    assert!(markers >= 4 && lines == 1 && !other, "one kin has one colour: {markers} {lines}");
}

#[test]
fn the_stack_of_a_paper_stands_beside_ours() {
    let series = |name: &str, paper: bool, value: f64| BarSeries {
        name: name.into(),
        paper,
        bars: vec![Bar::new("only", value)],
    };
    let all = vec![
        series("sign", false, 10.0),
        series("verify", false, 20.0),
        series("sign", true, 5.0),
        series("verify", true, 10.0),
    ];
    let (x, y) = (Axis::new("", ""), Axis::new("time", "µs"));
    let plot = Plot::Stacked(vec![Panel::new("", all)]);
    let figure = Figure { id: "stack".into(), title: "Stack".into(), caption: String::new(), x, y, plot };
    let area = &areas(&figure, Width::Text).expect("can be drawn")[0];
    let [sign, verify, of_paper, above] = area.marks[..] else { panic!("four segments: {:?}", area.marks) };
    assert!((sign[0] - verify[0]).abs() < 1e-9 && (of_paper[0] - above[0]).abs() < 1e-9, "two bars");
    assert!(sign[0] + sign[2] <= of_paper[0], "side by side");
    assert!((of_paper[3] * 2.0 - sign[3]).abs() < 1e-9 && (above[3] * 2.0 - verify[3]).abs() < 1e-9);
    let foot = |mark: [f64; 4]| mark[1] + mark[3];
    assert!((foot(sign) - foot(of_paper)).abs() < 1e-9, "both start at 0");
}

#[test]
fn segments_of_the_same_colour_are_told_apart() {
    let named = |name: usize| BarSeries { name: name.to_string(), paper: false, bars: vec![Bar::new("only", 1.0)] };
    let all: Vec<BarSeries> = (0..COLOURS + 1).map(named).collect();
    let (x, y) = (Axis::new("", ""), Axis::new("time", "µs"));
    let plot = Plot::Stacked(vec![Panel::new("", all)]);
    let figure = Figure { id: "many".into(), title: "Many".into(), caption: String::new(), x, y, plot };
    let drawn = svg(&figure, Width::Text).expect("can be drawn");
    let document = Document::parse(&drawn).expect("it is XML");
    let has = |node: &Node<'_, '_>, what: &str| node.attribute(what) == Some(colour(0).as_str());
    let rects = || document.descendants().filter(|node| node.has_tag_name("rect"));
    let (pale, full): (Vec<_>, Vec<_>) =
        rects().filter(|node| has(node, "fill")).partition(|node| node.attribute("opacity").is_some());
    assert_eq!((full.len(), pale.len()), (2, 2), "each in its bar and in the legend: {drawn}");
    assert_eq!(rects().filter(|node| has(node, "stroke")).count(), 2, "pale ones have an outline: {drawn}");
}

#[test]
fn columns_of_a_histogram_fill_their_intervals_from_zero() {
    let series = Series {
        points: [(1.0, 10.0, 30.0), (10.0, 100.0, 60.0)]
            .map(|(from, to, share)| Point { x_interval: Some((from, to)), ..Point::new(from, share) })
            .to_vec(),
        ..Series::default()
    };
    let (x, y) = (Axis::log("latency", "ms"), Axis::new("share", "%"));
    let plot = Plot::Histogram { panels: vec![Panel::new("", vec![series])], marks: Vec::new() };
    let figure = Figure { id: "columns".into(), title: "Columns".into(), caption: String::new(), x, y, plot };
    let area = &areas(&figure, Width::Text).expect("can be drawn")[0];
    let [low, high] = area.marks[..] else { panic!("two columns: {:?}", area.marks) };
    let near = |one: f64, two: f64| (one - two).abs() < 1e-9;
    assert!(near(low[0], 0.0) && near(low[2], 0.5) && near(high[0], 0.5) && near(high[2], 0.5), "decades are equal");
    assert!(near(low[3] * 2.0, high[3]) && near(low[1] + low[3], 1.0) && near(high[1] + high[3], 1.0));
    let drawn = svg(&figure, Width::Text).expect("can be drawn");
    let document = Document::parse(&drawn).expect("it is XML");
    let widths: Vec<f64> = document
        .descendants()
        .filter(|node| node.has_tag_name("rect") && node.attribute("fill") == Some(colour(0).as_str()))
        .map(|node| number(node, "width"))
        .collect();
    assert_eq!(widths.len(), 2, "{drawn}");
    assert!(widths.iter().all(|width| (width - area.area[2] / 2.0).abs() < 0.1), "{widths:?}");
}

#[test]
fn an_axis_may_start_at_zero_although_its_values_are_far_from_it() {
    let figure = |y: Axis| {
        let points = vec![Point::new(0.0, 99.0), Point::new(1.0, 100.0)];
        let series = Series { points, ..Series::default() };
        let plot = Plot::Time { panels: vec![Panel::new("", vec![series])], events: Vec::new() };
        Figure { id: "zero".into(), title: "Zero".into(), caption: String::new(), x: Axis::new("time", "s"), y, plot }
    };
    let height = |y: Axis| 1.0 - areas(&figure(y), Width::Text).expect("can be drawn")[0].marks[0][1];
    assert!(height(Axis::new("rate", "1/s")) < 0.6);
    assert!(height(Axis::from_zero("rate", "1/s")) > 0.8);
}

#[test]
fn a_single_number_of_a_paper_is_no_box() {
    let mark = |paper: bool| BoxSeries { name: "alpha".into(), paper, boxes: vec![BoxMark::single("only", 7.0)] };
    let figure = |series: BoxSeries| {
        let (x, y) = (Axis::new("", ""), Axis::new("latency", "ms"));
        let plot = Plot::Boxes(vec![Panel::new("", vec![series])]);
        Figure { id: "box".into(), title: "Box".into(), caption: String::new(), x, y, plot }
    };
    let page = |series: BoxSeries| {
        let section = Section {
            id: "one".into(),
            title: "One".into(),
            blocks: vec![quorate_plots::Block::Figure(Box::new(figure(series)))],
        };
        let all = Page { title: "A".into(), lead: Vec::new(), sections: vec![section], footer: String::new() };
        quorate_plots::page(&all).expect("can be drawn")
    };
    assert!(page(mark(false)).contains("quartiles"), "ours has a distribution, even if all runs are equal");
    let drawn = page(mark(true));
    assert!(!drawn.contains("quartiles") && drawn.contains("7 ms"), "{drawn}");
}

#[test]
fn failures_are_marked() {
    let [red, green, blue] = LIGHT.bad;
    let bad = format!("stroke=\"#{red:02x}{green:02x}{blue:02x}\"");
    for (figure, failures) in [(samples::line(), 2), (samples::bars(), 1), (samples::heat(), 1), (samples::time(), 1)] {
        let drawn = svg(&figure, Width::Text).expect("can be drawn");
        assert_eq!(drawn.matches(&bad).count(), failures, "{}", figure.id);
    }
}

/// Returns an empty figure of each kind, and one with a single value.
fn small() -> Vec<Figure> {
    let with = |figure: Figure, plot| Figure { plot, ..figure };
    let one = || Series { name: "ours".into(), points: vec![Point::new(4.0, 2.0)], ..Series::default() };
    let bar = || BarSeries { name: "ours".into(), paper: false, bars: vec![Bar::new("only", 3.0)] };
    let Plot::Boxes(boxes) = samples::boxes().plot else { unreachable!("boxes are boxes") };
    let single = BoxSeries { boxes: boxes[0].series[0].boxes[..1].to_vec(), ..BoxSeries::default() };
    let value = || Axis::new("value", "");
    vec![
        with(samples::curve(), Plot::Curve(vec![Panel::new("", Vec::new())])),
        with(samples::curve(), Plot::Curve(vec![Panel::new("", vec![one()])])),
        with(samples::line(), Plot::Line(vec![Panel::new("", vec![Series::default()])])),
        with(samples::line(), Plot::Line(vec![Panel::new("", vec![one()])])),
        with(samples::scatter(2), Plot::Scatter(vec![Panel::new("", Vec::new())])),
        with(samples::scatter(2), Plot::Scatter(vec![Panel::new("", vec![one()])])),
        with(samples::time(), Plot::Time { panels: vec![Panel::new("", Vec::new())], events: Vec::new() }),
        with(samples::time(), Plot::Time { panels: vec![Panel::new("", vec![one()])], events: Vec::new() }),
        with(samples::histogram(), Plot::Histogram { panels: vec![Panel::new("", Vec::new())], marks: Vec::new() }),
        with(samples::histogram(), Plot::Histogram { panels: vec![Panel::new("", vec![one()])], marks: Vec::new() }),
        with(samples::bars(), Plot::Bars(vec![Panel::new("", Vec::new())])),
        with(samples::bars(), Plot::Bars(vec![Panel::new("", vec![bar()])])),
        with(samples::stacked(), Plot::Stacked(vec![Panel::new("", Vec::new())])),
        with(samples::stacked(), Plot::Stacked(vec![Panel::new("", vec![bar()])])),
        with(samples::boxes(), Plot::Boxes(vec![Panel::new("", Vec::new())])),
        with(samples::boxes(), Plot::Boxes(vec![Panel::new("", vec![single])])),
        with(samples::heat(), Plot::Heat { value: value(), panels: vec![HeatPanel::default()] }),
    ]
}

#[test]
fn figures_of_nothing_and_of_one_value_are_drawn() {
    each(&small(), |figure, width, document| {
        no_element_leaves(document, &format!("{} at {width:?}", figure.id));
        let empty = areas(figure, width).expect("can be drawn").iter().all(|area| area.marks.is_empty());
        let said = document.descendants().any(|node| node.text() == Some("no data"));
        assert_eq!(empty, said, "{}", figure.id);
    });
}

#[test]
fn long_labels_stay_inside() {
    let long = "a very long name that nobody would give to anything, and then some more of it ".repeat(4);
    let mut figures = samples::all();
    for figure in &mut figures {
        (figure.x.label, figure.y.label, figure.title) = (long.clone(), long.clone(), long.clone());
        match &mut figure.plot {
            Plot::Curve(panels) | Plot::Line(panels) | Plot::Scatter(panels) => rename(panels, &long),
            Plot::Time { panels, events } | Plot::Histogram { panels, marks: events } => {
                rename(panels, &long);
                events.iter_mut().for_each(|event| event.label = long.clone());
            }
            Plot::Bars(panels) | Plot::Stacked(panels) => {
                for (at, series) in panels.iter_mut().flat_map(|panel| &mut panel.series).enumerate() {
                    series.name = format!("{at} {long}");
                    series.bars.iter_mut().for_each(|bar| bar.category = format!("{} {long}", bar.category));
                }
            }
            Plot::Boxes(panels) => {
                let boxes = panels.iter_mut().flat_map(|panel| &mut panel.series).flat_map(|series| &mut series.boxes);
                boxes.for_each(|mark| mark.category = mark.category.replace(' ', "") + &long.replace(' ', ""));
            }
            Plot::Heat { value, panels } => {
                value.label = long.clone();
                panels[0].rows[0] = long.clone();
                panels[0].columns[0] = long.clone();
            }
        }
    }
    each(&figures, |figure, width, document| {
        let what = format!("{} at {width:?}", figure.id);
        no_element_leaves(document, &what);
        no_text_overlaps(document, &what);
    });
}

fn rename(panels: &mut [Panel<Series>], long: &str) {
    for (at, panel) in panels.iter_mut().enumerate() {
        panel.title = format!("{at} {long}");
        panel.series.iter_mut().for_each(|series| series.name = format!("{} {long}", series.name));
    }
}

#[test]
fn long_names_of_categories_stay_distinct() {
    let bars = (0..20).map(|at| Bar::new(&format!("a category with a long name, number {at}"), f64::from(at) - 4.0));
    let series = BarSeries { name: "ours".into(), paper: false, bars: bars.collect() };
    let figure = Figure { plot: Plot::Bars(vec![Panel::new("", vec![series])]), ..samples::bars() };
    each(&[figure], |_, width, document| {
        let turned = document.descendants().filter(|node| node.attribute("transform").is_some());
        let names: Vec<&str> = turned.filter_map(|node| node.text()).filter(|text| text.contains('\u{2026}')).collect();
        assert!(names.len() >= 10, "{width:?}: {names:?}");
        let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    });
}

#[test]
fn crowded_events_are_numbered() {
    let mut figure = samples::time();
    let Plot::Time { events, .. } = &mut figure.plot else { unreachable!("time is time") };
    for second in 0..70 {
        let label = ["leader changes", "replica restarts", "checkpoint"][second % 3];
        events.push(quorate_plots::Event { from: second as f64, to: None, label: label.into() });
    }
    each(&[figure], |_, width, document| {
        no_text_overlaps(document, &format!("{width:?}"));
        let key =
            document.descendants().filter_map(|node| node.text()).find(|text| text.contains("1: leader slow · 2: "));
        assert!(key.is_some(), "the numbers are explained");
    });
}

#[test]
fn ten_thousand_requests_fit_into_a_small_file() {
    let text = svg(&samples::scatter(10_000), Width::Text).expect("can be drawn");
    let document = Document::parse(&text).expect("is XML");
    let round = |node: &Node| node.attribute("stroke-linecap") == Some("round");
    let dots: usize = document.descendants().filter(round).map(|node| places(node).len()).sum();
    assert_eq!(dots, 10_000);
    assert!(text.len() < 250_000, "{} bytes", text.len());
    no_element_leaves(&document, "scatter");
}

#[test]
fn equal_data_gives_equal_bytes() {
    for figure in samples::all() {
        assert_eq!(svg(&figure, Width::Text), svg(&figure.clone(), Width::Text));
        assert_eq!(quorate_plots::pdf(&figure, Width::Text), quorate_plots::pdf(&figure.clone(), Width::Text));
    }
}

#[test]
fn crowded_ticks_lose_labels_rather_than_overlap() {
    let Plot::Curve(panels) = samples::curve().plot else { unreachable!("curves are curves") };
    let mut narrow = panels[0].clone();
    for point in narrow.series.iter_mut().flat_map(|series| &mut series.points) {
        (point.x, point.x_interval) = (point.x * 13.6, None);
    }
    let figure = Figure { plot: Plot::Curve(vec![narrow; 3]), ..samples::curve() };
    each(&[figure], |_, width, document| {
        no_text_overlaps(document, &format!("{width:?}"));
        let millions = document.descendants().filter_map(|node| node.text()).filter(|text| text.ends_with('M'));
        assert!(millions.count() >= 3, "each panel keeps some labels");
    });
}

/// Returns how each of `count` series is drawn apart from its colour: dashes, marker shapes or hatching.
fn looks_in_grey(figure: &Figure, count: usize) -> Vec<String> {
    let html = quorate_plots::page(&Page {
        title: String::new(),
        lead: Vec::new(),
        sections: vec![Section {
            id: "one".into(),
            title: String::new(),
            blocks: vec![Block::Figure(Box::new(figure.clone()))],
        }],
        footer: String::new(),
    });
    let html = html.expect("can be drawn");
    let drawing = html.split("<svg ").nth(1).and_then(|rest| rest.split("</svg>").next()).expect("a drawing");
    let text = format!("<svg {drawing}</svg>");
    let document = Document::parse(&text).expect("it is XML");
    let keys = document.descendants().filter(|node| node.attribute("class") == Some("key")).take(count);
    let shape = |key: Node| {
        let parts = key.children().filter(|node| !node.has_tag_name("text"));
        parts.map(|node| format!("{} {};", outline(node), node.attribute("stroke-dasharray").unwrap_or(""))).collect()
    };
    keys.map(shape).collect()
}

/// Describes the outline of an element, wherever it is.
fn outline(node: Node) -> String {
    let places = places(node);
    let least = |of: fn(&(f64, f64)) -> f64| places.iter().map(of).fold(f64::INFINITY, f64::min);
    let (left, top) = (least(|place| place.0), least(|place| place.1));
    let moved = places.iter().map(|(x, y)| format!("{:.1} {:.1}", x - left, y - top));
    format!("{} {}", node.tag_name().name(), moved.collect::<Vec<_>>().join(" "))
}

#[test]
fn series_differ_when_printed_in_grey() {
    let line = |at: usize, trace| Series {
        name: at.to_string(),
        trace,
        points: vec![Point::new(1.0, 1.0), Point::new(2.0, at as f64 + 1.0)],
        ..Series::default()
    };
    let bars =
        |at: usize| BarSeries { name: at.to_string(), paper: false, bars: vec![Bar::new("only", at as f64 + 1.0)] };
    let (x, y) = (Axis::new("x", ""), Axis::new("y", ""));
    let figure = |plot| Figure {
        id: "grey".into(),
        title: "Grey".into(),
        caption: String::new(),
        x: x.clone(),
        y: y.clone(),
        plot,
    };
    let all = [
        ("markers", Plot::Line(vec![Panel::new("", (0..6).map(|at| line(at, Trace::Joined)).collect())])),
        ("lines", Plot::Line(vec![Panel::new("", (0..6).map(|at| line(at, Trace::Line)).collect())])),
        (
            "time",
            Plot::Time {
                panels: vec![Panel::new("", (0..6).map(|at| line(at, Trace::Joined)).collect())],
                events: Vec::new(),
            },
        ),
        ("bars", Plot::Bars(vec![Panel::new("", (0..6).map(bars).collect())])),
    ];
    for (what, plot) in all {
        let looks = looks_in_grey(&figure(plot), 6);
        assert_eq!(looks.len(), 6, "{what}");
        for (at, one) in looks.iter().enumerate() {
            assert!(!looks[..at].contains(one), "{what}: series {at} looks like an earlier one: {looks:#?}");
        }
    }
}
