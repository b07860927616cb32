//! Data that cannot be drawn is refused, with the place, the problem and the remedy.

use proptest::prelude::*;
use quorate_plots::{
    Axis, Bar, Block, Column, Figure, MAX_MAGNITUDE, MAX_PANELS, MAX_POINTS, MAX_SERIES, Panel, Plot, PlotError, Point,
    Section, Series, Table, Width,
};

use crate::samples;

fn line(points: Vec<Point>) -> Figure {
    let series = Series { name: "ours".into(), points, ..Series::default() };
    Figure {
        id: "fig".into(),
        title: "Title".into(),
        caption: String::new(),
        x: Axis::new("replicas", ""),
        y: Axis::new("latency", "ms"),
        plot: Plot::Line(vec![Panel::new("left", vec![series])]),
    }
}

fn refused(figure: &Figure) -> String {
    let error = quorate_plots::svg(figure, Width::Text).expect_err("this cannot be drawn");
    assert_eq!(quorate_plots::pdf(figure, Width::Text).expect_err("nor as PDF"), error);
    error.to_string()
}

/// Asserts that a message contains each part.
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{message}` lacks `{part}`");
    }
}

#[test]
fn a_value_that_is_no_number_is_named() {
    let points = vec![Point::new(4.0, 1.0), Point::new(7.0, f64::NAN)];
    let place = "figure `fig`, panel `left`, series `ours`, point 2";
    says(&refused(&line(points)), &[place, "y is NaN", "mark it as failed"]);
    says(&refused(&line(vec![Point::new(f64::INFINITY, 1.0)])), &["point 1", "x is inf"]);
    says(&refused(&line(vec![Point::new(1.0, MAX_MAGNITUDE * 2.0)])), &["larger unit"]);
}

#[test]
fn a_logarithmic_axis_takes_positive_values_only() {
    let mut figure = line(vec![Point::new(4.0, 0.0)]);
    figure.y.log = true;
    says(&refused(&figure), &["y is 0", "logarithmic axis", "linear one", "give 0 a place"]);
    figure.y.zero_place = true;
    quorate_plots::svg(&figure, Width::Text).expect("0 has a place");
    let mut figure = line(vec![Point::new(4.0, -1e-3)]);
    (figure.y.log, figure.y.zero_place) = (true, true);
    says(&refused(&figure), &["y is -0.001"]);
    let mut figure = line(vec![Point::new(4.0, 1.0).between(-0.1, 2.0)]);
    figure.y.log = true;
    says(&refused(&figure), &["its lower bound is -0.1"]);
    let mut figure = line(vec![Point::new(4.0, -1.0)]);
    let Plot::Line(panels) = &mut figure.plot else { unreachable!("made above") };
    panels[0].y = Some(Axis::log("own", ""));
    says(&refused(&figure), &["y is -1"]);
}

#[test]
fn intervals_are_in_order_and_have_a_value() {
    says(&refused(&line(vec![Point::new(4.0, 1.0).between(2.0, 1.5)])), &["2, 1.5", "lowest value first"]);
    says(&refused(&line(vec![Point::failed(4.0, "crashed").between(1.0, 2.0)])), &["interval without a value"]);
}

#[test]
fn sizes_are_limited() {
    let mut figure = line(Vec::new());
    figure.plot = Plot::Line(Vec::new());
    says(&refused(&figure), &["no panel"]);
    figure.plot = Plot::Line(vec![Panel::new("", Vec::new()); MAX_PANELS + 1]);
    says(&refused(&figure), &[&format!("{} panels", MAX_PANELS + 1), "several figures"]);
    figure.plot = Plot::Line(vec![Panel::new("", vec![Series::default(); MAX_SERIES + 1])]);
    says(&refused(&figure), &[&format!("{} series", MAX_SERIES + 1)]);
    says(&refused(&line(vec![Point::new(1.0, 1.0); MAX_POINTS + 1])), &[&format!("{} points", MAX_POINTS + 1)]);
}

#[test]
fn categories_and_cells_are_given_once() {
    let mut figure = samples::bars();
    let Plot::Bars(panels) = &mut figure.plot else { unreachable!("bars are bars") };
    panels[0].series[0].bars.push(Bar::new("no fault", 1.0));
    says(&refused(&figure), &["series `alpha`, category `no fault`", "given twice"]);
    let mut figure = samples::heat();
    let Plot::Heat { panels, .. } = &mut figure.plot else { unreachable!("heat is heat") };
    let again = panels[0].cells[0].clone();
    panels[0].cells.push(again);
    says(&refused(&figure), &["column 1 and row 1", "given twice"]);
    let mut figure = samples::heat();
    let Plot::Heat { panels, .. } = &mut figure.plot else { unreachable!("heat is heat") };
    panels[0].cells[0].column = 99;
    says(&refused(&figure), &["column 100", "outside 7 columns"]);
}

#[test]
fn stacks_and_boxes_make_sense() {
    let mut figure = samples::stacked();
    figure.y.log = true;
    says(&refused(&figure), &["stacked bars on a logarithmic axis"]);
    let mut figure = samples::stacked();
    let Plot::Stacked(panels) = &mut figure.plot else { unreachable!("stacks are stacks") };
    panels[1].series[2].bars[0].value = Some(-1.0);
    says(&refused(&figure), &["panel `10 replicas`, series `hash`", "`alpha` is negative"]);
    let mut figure = samples::boxes();
    let Plot::Boxes(panels) = &mut figure.plot else { unreachable!("boxes are boxes") };
    panels[0].series[0].boxes[1].summary.swap(1, 3);
    says(&refused(&figure), &["category `ed25519 batch`", "not in rising order"]);
}

#[test]
fn events_are_checked_as_well() {
    let mut figure = samples::time();
    let Plot::Time { events, .. } = &mut figure.plot else { unreachable!("time is time") };
    (events[0].from, events[0].to) = (9.0, Some(3.0));
    says(&refused(&figure), &["event `leader slow`", "9, 3"]);
}

#[test]
fn names_fit_into_a_page_and_a_directory() {
    for id in ["", "a b", "../x", ".x", "fig\"1"] {
        says(&refused(&Figure { id: id.into(), ..line(Vec::new()) }), &["not fit for a file name"]);
    }
    let refused = |page| -> PlotError { quorate_plots::page(&page).expect_err("this page is wrong") };
    let mut page = samples::page();
    page.sections.push(Section { id: "curve".into(), title: String::new(), blocks: Vec::new() });
    says(&refused(page).to_string(), &["id `curve`", "twice"]);
    let mut page = samples::page();
    let columns = vec![Column { title: "one".into(), numeric: false }];
    let table = Table { caption: "Cells".into(), columns, rows: vec![vec!["a".into()], Vec::new()] };
    page.sections[0].blocks.push(Block::Table(table));
    says(&refused(page).to_string(), &["table `Cells`, row 2", "0 fields for 1 columns"]);
}

proptest! {
    /// Arbitrary bit patterns are either drawn, without any trace of non-finite numbers, or refused.
    #[test]
    fn any_values_are_drawn_or_refused(
        bits in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..12),
        log_x in any::<bool>(), log_y in any::<bool>(), small in any::<bool>(), kind in 0..4,
    ) {
        let value = |bits: u64| if small { (bits % 4000) as f64 / 100.0 } else { f64::from_bits(bits) };
        let point = |(x, y, low, high)| Point::new(value(x), value(y)).between(value(low), value(high));
        let points = bits.into_iter().map(point);
        let mut figure = line(points.collect());
        (figure.x.log, figure.y.log) = (log_x, log_y);
        let Plot::Line(panels) = figure.plot else { unreachable!("made above") };
        figure.plot = match kind {
            0 => Plot::Line(panels),
            1 => Plot::Curve(panels),
            2 => Plot::Scatter(panels),
            _ => Plot::Time { panels, events: Vec::new() },
        };
        if let Ok(svg) = quorate_plots::svg(&figure, Width::Column) {
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            prop_assert!(roxmltree::Document::parse(&svg).is_ok());
        }
    }
}
