//! Pages of experiments, from invented rows.

use quorate_lab::experiments::row::{Noise, Sample};
use quorate_lab::experiments::{Experiment, Instrument, Judgement, Plan, Profile, Row, Verdict, judge, read};
use quorate_lab::figures::vocabulary;
use quorate_plots::{Block, Figure, Page, Plot};
use quorate_runner::page::{Fidelity, Finding, page, write};
use quorate_types::stages::{MessageKind, Stage, StageCost, StageRole};
use std::collections::BTreeMap;
use std::fs;

const HEAD: &str = r#"
title = "Batches & leaders"
paper = "mine"
figure = "3"
about = "How batches and leaders change the throughput."
instruments = ["simulated", "real"]

[base]
replicas = 4
payload = 16

[[axis]]
key = "batch"
from = 100
to = 400
factor = 2

[[axis]]
key = "leader"
values = ["fixed", "round-robin"]

[repeat]
min = 3
max = 5
"#;

pub fn experiment(more: &str) -> Experiment {
    read(&format!("{HEAD}{more}"), "experiments/mine/batches.toml", vocabulary())
        .unwrap_or_else(|fault| panic!("{fault}"))
}

/// Returns three rows per cell. The throughput is 10 times the batch, doubled for rotating leaders, and differs by 10
/// between repetitions.
pub fn rows(plan: &Plan) -> Vec<Row> {
    let mut rows = Vec::new();
    for cell in &plan.cells {
        let batch = cell.get("batch").and_then(|value| value.as_number()).expect("each cell has a batch");
        let factor = if cell.get("leader").and_then(|value| value.as_text()) == Some("fixed") { 10.0 } else { 20.0 };
        for repetition in 0..3 {
            let throughput = batch * factor + 10.0 * f64::from(repetition);
            let figures = [
                ("throughput_per_s", throughput),
                ("mean_ms", batch / 100.0),
                ("replica_cpu_us_per_command", 7.0),
                ("client_cpu_us_per_command", 3.0),
            ];
            rows.push(Row {
                experiment: plan.experiment.name(),
                instrument: cell.instrument,
                profile: plan.profile,
                cell: cell.values(),
                repetition,
                figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
                series: BTreeMap::from([("completed_per_s".to_owned(), vec![throughput, throughput + 6.0])]),
                stages: Vec::new(),
                samples: (0..9).map(|at| Sample { at_s: f64::from(at), latency_ms: f64::from(at + 1) }).collect(),
                noise: (cell.instrument == Instrument::Real)
                    .then(|| Noise { variation_percent: Some(3.0), ..Noise::default() }),
                failure: None,
                not_measurable: None,
                warnings: Vec::new(),
                provenance: Default::default(),
            });
            let row = rows.last_mut().expect("it was just added");
            row.provenance.command = format!("quorate sim --batch {batch} --seed {repetition}");
            row.provenance.surroundings.build = "0.1.0 commit 123abc release".to_owned();
        }
    }
    rows
}

pub fn simulated(experiment: &Experiment) -> Plan<'_> {
    experiment.plan(Profile::Full, Some(&[Instrument::Simulated])).unwrap_or_else(|fault| panic!("{fault}"))
}

fn page_of(plan: &Plan, rows: &[Row]) -> (Page, Vec<Judgement>) {
    let claims = judge(plan, rows);
    (page(&[Finding { plan, rows, claims: &claims }], None), claims)
}

fn figures(page: &Page) -> Vec<&Figure> {
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    blocks.filter_map(|block| if let Block::Figure(figure) = block { Some(figure.as_ref()) } else { None }).collect()
}

/// Returns the only figure of an experiment with this plot.
pub fn drawn(plot: &str, change: impl Fn(&mut Vec<Row>)) -> Figure {
    let experiment = experiment(&format!("[[plot]]\ntitle = \"A plot\"\n{plot}"));
    let plan = simulated(&experiment);
    let mut rows = rows(&plan);
    change(&mut rows);
    let (page, _) = page_of(&plan, &rows);
    quorate_plots::page(&page).unwrap_or_else(|error| panic!("{error}"));
    let figures = figures(&page);
    assert_eq!(figures.len(), 1, "{page:?}");
    figures[0].clone()
}

fn texts(page: &Page) -> String {
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    let texts = blocks.filter_map(|block| if let Block::Paragraph(text) = block { Some(text.as_str()) } else { None });
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_line_has_means_and_intervals_by_series() {
    let figure = drawn("kind = \"line\"\nx = \"batch\"\ny = \"throughput_per_s\"\nseries = \"leader\"", |_| {});
    let Plot::Line(panels) = &figure.plot else { panic!("{figure:?}") };
    let names: Vec<&str> = panels[0].series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["fixed", "round-robin"]);
    let point = &panels[0].series[1].points[2];
    assert_eq!((point.x, point.y), (400.0, Some(8010.0)));
    // Student's t for 2 degrees of freedom is 4.303, the standard deviation is 10.
    let (low, high) = point.y_interval.expect("there are three runs");
    assert!((high - 8010.0 - 4.3027 * 10.0 / 3f64.sqrt()).abs() < 0.01, "{low} to {high}");
    assert_eq!(figure.y.title(), "throughput (commands/s)");
    assert_eq!(point.hover.command.as_deref(), Some("quorate sim --batch 400 --seed 0"));
    let row = |name: &str| point.hover.rows.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    assert_eq!(row("leader"), Some("round-robin"));
    assert_eq!(row("build"), Some("0.1.0 commit 123abc release"));
    assert_eq!(row("runs"), Some("3"));
}

#[test]
fn what_is_neither_series_nor_panel_still_has_a_place_of_its_own() {
    let figure = drawn("kind = \"bars\"\nx = \"batch\"\ny = \"throughput_per_s\"", |_| {});
    let Plot::Bars(panels) = &figure.plot else { panic!("{figure:?}") };
    assert_eq!(panels[0].series.len(), 2, "a series for each leader");
    assert_eq!(panels[0].series[0].bars[1].category, "200");
    assert_eq!(panels[0].series[0].bars[1].value, Some(2010.0));
}

#[test]
fn a_curve_runs_along_the_other_axes() {
    let figure = drawn("kind = \"curve\"\nx = \"throughput_per_s\"\ny = \"mean_ms\"\npanel = \"leader\"", |_| {});
    let Plot::Curve(panels) = &figure.plot else { panic!("{figure:?}") };
    assert_eq!(panels.iter().map(|panel| panel.title.as_str()).collect::<Vec<_>>(), ["fixed", "round-robin"]);
    let points = &panels[0].series[0].points;
    assert_eq!(points.iter().map(|point| point.x).collect::<Vec<_>>(), [1010.0, 2010.0, 4010.0]);
    assert!(points[0].x_interval.is_some_and(|(low, high)| low < 1010.0 && high > 1010.0));
}

#[test]
fn a_line_over_words_becomes_bars() {
    let figure = drawn("kind = \"line\"\nx = \"leader\"\ny = \"mean_ms\"\nwhere = { batch = \"largest\" }", |_| {});
    let Plot::Bars(panels) = &figure.plot else { panic!("{figure:?}") };
    assert_eq!(panels[0].series[0].bars.iter().map(|bar| bar.value).collect::<Vec<_>>(), [Some(4.0), Some(4.0)]);
}

#[test]
fn stacks_have_a_segment_for_each_figure() {
    let y = "[\"replica_cpu_us_per_command\", \"client_cpu_us_per_command\"]";
    let figure = drawn(&format!("kind = \"stacked\"\nx = \"batch\"\ny = {y}"), |_| {});
    let Plot::Stacked(panels) = &figure.plot else { panic!("{figure:?}") };
    assert_eq!(
        panels[0].series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(),
        ["replica CPU per command", "client CPU per command"]
    );
    let bar = &panels[0].series[1].bars[0];
    assert_eq!((bar.category.as_str(), bar.value), ("100, fixed", Some(3.0)));
}

#[test]
fn boxes_show_requests_where_there_are_some() {
    let plot = "kind = \"box\"\nx = \"batch\"\ny = \"mean_ms\"\nwhere = { leader = \"fixed\" }";
    let figure = drawn(plot, |rows| rows[0].samples[0].latency_ms = 100.0);
    let Plot::Boxes(panels) = &figure.plot else { panic!("{figure:?}") };
    let mark = &panels[0].series[0].boxes[1];
    // Three times 1 to 9 ms.
    assert_eq!(mark.summary, [1.0, 3.0, 5.0, 7.0, 9.0]);
    assert_eq!(panels[0].series[0].boxes[0].outliers, [100.0]);
    let figure = drawn(plot, |rows| rows.iter_mut().for_each(|row| row.samples.clear()));
    let Plot::Boxes(panels) = &figure.plot else { panic!("{figure:?}") };
    assert_eq!(panels[0].series[0].boxes[1].summary, [2.0; 5], "the runs have the same mean");
}

#[test]
fn stages_are_stacked_by_message_with_a_panel_for_each_role() {
    let cost =
        |message, stage, role, cycles, count| StageCost { message, stage, role, cycles, nanoseconds: cycles, count };
    let add = |rows: &mut Vec<Row>| {
        for row in rows {
            let odd = f64::from(row.repetition % 2);
            row.stages = vec![
                cost(MessageKind::Commit, Stage::Hash, StageRole::Leader, Some(100.0 + 40.0 * odd), 10),
                cost(MessageKind::Commit, Stage::Step, StageRole::Leader, None, 10),
                cost(MessageKind::None, Stage::Wait, StageRole::Leader, Some(1e6), 1000),
                cost(MessageKind::Timeout, Stage::Step, StageRole::Leader, Some(1e6), 1),
                cost(MessageKind::Commit, Stage::Hash, StageRole::Backup, Some(7.0), 10),
            ];
        }
    };
    let figure = drawn("kind = \"stages\"\nwhere = { batch = 100, leader = \"fixed\" }", add);
    let Plot::Stacked(panels) = &figure.plot else { panic!("bars are stacked") };
    let titles: Vec<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["at the leader", "at the backup"]);
    let [hash] = &panels[0].series[..] else { panic!("only hashing was timed: {:?}", panels[0]) };
    let bars: Vec<(&str, Option<f64>)> = hash.bars.iter().map(|bar| (bar.category.as_str(), bar.value)).collect();
    // Two of three runs took 100 cycles; rare timeouts, and work for no message, are left out.
    assert_eq!((hash.name.as_str(), bars), ("hash", vec![("commit", Some((100.0 * 20.0 + 140.0 * 10.0) / 30.0))]));
    assert_eq!(figure.y.title(), "cost of one message (cycles)");
}

#[test]
fn a_heat_map_has_a_field_for_each_cell() {
    let plot = "kind = \"heat\"\nx = \"batch\"\ny = \"leader\"\nvalue = \"throughput_per_s\"";
    let figure = drawn(plot, |rows| rows.retain(|row| row.cell["batch"] != 200.into()));
    let Plot::Heat { value, panels } = &figure.plot else { panic!("{figure:?}") };
    assert_eq!(value.title(), "throughput (commands/s)");
    assert_eq!((panels[0].columns.as_slice(), panels[0].rows.len()), (&["100".to_owned(), "400".to_owned()][..], 2));
    let cell = panels[0].cells.iter().find(|cell| (cell.column, cell.row) == (1, 1)).expect("it was run");
    assert_eq!(cell.value, Some(8010.0));
}

#[test]
fn requests_and_seconds_are_drawn_over_time() {
    let figure = drawn("kind = \"scatter\"\npanel = \"leader\"", |_| {});
    let Plot::Scatter(panels) = &figure.plot else { panic!("{figure:?}") };
    assert_eq!((panels.len(), panels[0].series.len(), panels[0].series[0].points.len()), (2, 3, 27));
    assert!(figure.caption.starts_with("162 requests. Requests that were due"), "{}", figure.caption);
    let figure = drawn("kind = \"scatter\"", |rows| rows.iter_mut().for_each(|row| row.samples.clear()));
    assert!(figure.caption.contains("kept no single requests: set `samples`"), "{}", figure.caption);
    let figure =
        drawn("kind = \"seconds\"\ny = \"completed_per_s\"\nseries = \"leader\"\nwhere = { batch = 100 }", |_| {});
    let Plot::Time { panels, .. } = &figure.plot else { panic!("{figure:?}") };
    let points = &panels[0].series[0].points;
    assert_eq!(
        points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>(),
        [(0.0, Some(1010.0)), (1.0, Some(1016.0))]
    );
}

#[test]
fn each_span_of_misbehaviour_is_shaded_once() {
    let plot = "[[plot]]\ntitle = \"t\"\nkind = \"seconds\"\ny = \"completed_per_s\"\nseries = \"leader\"";
    let faults = "payload = 16\nduration = \"60s\"\nfault = [\"slow:0..3@15s+15s/30s\", \"silent:3\", \"fork:3@50s\"]";
    let text = format!("{HEAD}{plot}").replace("payload = 16", faults);
    let experiment = read(&text, "mine.toml", vocabulary()).unwrap_or_else(|fault| panic!("{fault}"));
    let plan = simulated(&experiment);
    let (page, _) = page_of(&plan, &rows(&plan));
    let Plot::Time { events, .. } = &figures(&page)[0].plot else { panic!("{page:?}") };
    let spans: Vec<_> = events.iter().map(|event| (event.from, event.to, event.label.as_str())).collect();
    let slow = "slow:0..3";
    assert_eq!(spans, [(15.0, Some(30.0), slow), (45.0, Some(60.0), slow), (50.0, Some(60.0), "fork:3")]);
}

#[test]
fn more_requests_than_can_be_drawn_are_thinned_out() {
    let figure = drawn("kind = \"scatter\"", |rows| {
        let sample = rows[0].samples[0];
        rows[0].samples = vec![sample; quorate_plots::MAX_POINTS + 1];
    });
    assert!(figure.caption.starts_with("One in 2 of 100,"), "{}", figure.caption);
}

#[test]
fn the_papers_values_stand_beside_ours() {
    let value = |at: &str, figure: &str, value: f64| {
        format!("[[paper_value]]\nat = {{ {at} }}\nfigure = \"{figure}\"\nvalue = {value}\nsource = \"section 5\"\n")
    };
    let values = [
        value("batch = 100, leader = \"round-robin\"", "throughput_per_s", 17000.0),
        value("batch = 800, leader = \"round-robin\"", "throughput_per_s", 19000.0),
        value("batch = 100, leader = \"round-robin\"", "mean_ms", 3.0),
    ];
    let line = "kind = \"line\"\nx = \"batch\"\ny = \"throughput_per_s\"\nseries = \"leader\"\n";
    let figure = drawn(&format!("{line}{}", values.concat()), |_| {});
    let Plot::Line(panels) = &figure.plot else { panic!("{figure:?}") };
    let paper: Vec<_> = panels[0].series.iter().filter(|series| series.paper).collect();
    assert_eq!((paper.len(), paper[0].name.as_str()), (1, "round-robin"));
    let points: Vec<_> = paper[0].points.iter().map(|point| (point.x, point.y)).collect();
    assert_eq!(points, [(100.0, Some(17000.0)), (800.0, Some(19000.0))], "also where we have no cell");
    let curve = "kind = \"curve\"\nx = \"throughput_per_s\"\ny = \"mean_ms\"\nseries = \"leader\"\n";
    let figure = drawn(&format!("{curve}{}", values.concat()), |_| {});
    let Plot::Curve(panels) = &figure.plot else { panic!("{figure:?}") };
    let paper: Vec<_> = panels[0].series.iter().filter(|series| series.paper).collect();
    assert_eq!(paper[0].points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>(), [(17000.0, Some(3.0))]);
    let bars = "kind = \"bars\"\nx = \"batch\"\ny = \"throughput_per_s\"\nwhere = { leader = \"fixed\" }\n";
    let figure = drawn(&format!("{bars}{}", values.concat()), |_| {});
    let Plot::Bars(panels) = &figure.plot else { panic!("{figure:?}") };
    assert!(panels[0].series.iter().all(|series| !series.paper), "the values are of leaders that are not drawn");
}

pub fn paper_value(at: &str, figure: &str, value: f64) -> String {
    format!("[[paper_value]]\nat = {{ {at} }}\nfigure = \"{figure}\"\nvalue = {value}\nsource = \"section 5\"\n")
}

#[test]
fn the_papers_values_stand_beside_boxes() {
    let value = paper_value("batch = 200, leader = \"fixed\"", "mean_ms", 5.5);
    let figure = drawn(&format!("kind = \"box\"\nx = \"batch\"\ny = \"mean_ms\"\n{value}"), |_| {});
    let Plot::Boxes(panels) = &figure.plot else { panic!("{figure:?}") };
    let paper: Vec<_> = panels[0].series.iter().filter(|series| series.paper).collect();
    assert_eq!((paper.len(), paper[0].name.as_str(), paper[0].boxes.len()), (1, "fixed", 1));
    let mark = &paper[0].boxes[0];
    assert_eq!((mark.category.as_str(), mark.summary), ("200", [5.5; 5]));
    assert!(mark.hover.rows.contains(&("source".to_owned(), "section 5".to_owned())));
    assert_eq!(figure.y.title(), "latency (ms)", "boxes are of requests, not of means");
}

#[test]
fn the_papers_values_stand_beside_stacks() {
    let values = [
        paper_value("batch = 100, leader = \"fixed\"", "client_cpu_us_per_command", 4.0),
        paper_value("batch = 100, leader = \"fixed\"", "replica_cpu_us_per_command", 8.0),
    ];
    let y = "[\"replica_cpu_us_per_command\", \"client_cpu_us_per_command\"]";
    let figure = drawn(&format!("kind = \"stacked\"\nx = \"batch\"\ny = {y}\n{}", values.concat()), |_| {});
    let Plot::Stacked(panels) = &figure.plot else { panic!("{figure:?}") };
    let paper: Vec<_> = panels[0].series.iter().filter(|series| series.paper).collect();
    let bars: Vec<_> = paper
        .iter()
        .map(|series| (series.name.as_str(), series.bars[0].category.as_str(), series.bars[0].value))
        .collect();
    assert_eq!(
        bars,
        [("replica CPU per command", "100, fixed", Some(8.0)), ("client CPU per command", "100, fixed", Some(4.0))],
        "in the order and with the names of ours"
    );
}

#[test]
fn the_papers_values_have_a_heat_map_of_their_own() {
    let values = [
        paper_value("batch = 800, leader = \"fixed\"", "throughput_per_s", 9000.0),
        paper_value("batch = 100, leader = \"fixed\"", "throughput_per_s", 1200.0),
    ];
    let plot = "kind = \"heat\"\nx = \"batch\"\ny = \"leader\"\nvalue = \"throughput_per_s\"\n";
    let figure = drawn(&format!("{plot}{}", values.concat()), |_| {});
    let Plot::Heat { panels, .. } = &figure.plot else { panic!("{figure:?}") };
    let [ours, paper] = &panels[..] else { panic!("two panels: {panels:?}") };
    assert!(!ours.paper && paper.paper && paper.title == "paper");
    assert_eq!(
        (paper.columns.as_slice(), paper.rows.as_slice()),
        (&["100".into(), "800".into()][..], &["fixed".into()][..])
    );
    let fields: Vec<_> = paper.cells.iter().map(|cell| (cell.column, cell.row, cell.value)).collect();
    assert_eq!(fields, [(1, 0, Some(9000.0)), (0, 0, Some(1200.0))]);
}

#[test]
fn caveats_of_runs_are_shown_once() {
    let experiment =
        experiment("[[plot]]\nkind = \"line\"\ntitle = \"A plot\"\nx = \"batch\"\ny = \"throughput_per_s\"");
    let plan = simulated(&experiment);
    let mut rows = rows(&plan);
    rows.iter_mut().take(4).for_each(|row| row.warnings.push("the clients are slow".to_owned()));
    let (page, _) = page_of(&plan, &rows);
    assert!(texts(&page).contains("Warnings of the runs: the clients are slow."), "{}", texts(&page));
    let Plot::Line(panels) = &figures(&page)[0].plot else { panic!("it is a line") };
    let warned = panels[0].series.iter().flat_map(|series| &series.points);
    let warned = warned.filter(|point| point.hover.rows.iter().any(|(name, _)| name == "warning")).count();
    assert_eq!(warned, 2, "the cells of the first four rows");
}

#[test]
fn a_failed_cell_is_a_mark_and_is_named() {
    let line = "kind = \"line\"\nx = \"batch\"\ny = \"throughput_per_s\"\nseries = \"leader\"";
    let fail = |rows: &mut Vec<Row>| rows[0].failure = Some("replica 2 ended\nwith status 1".to_owned());
    let figure = drawn(line, fail);
    let Plot::Line(panels) = &figure.plot else { panic!("{figure:?}") };
    let point = &panels[0].series[0].points[0];
    assert_eq!((point.x, point.y), (100.0, None));
    assert_eq!(point.hover.rows[0], ("failed".to_owned(), "replica 2 ended with status 1".to_owned()));
    assert!(figure.caption.contains("batch 100, leader fixed: replica 2 ended with status 1"), "{}", figure.caption);
    let figure = drawn("kind = \"curve\"\nx = \"throughput_per_s\"\ny = \"mean_ms\"", fail);
    let Plot::Curve(panels) = &figure.plot else { panic!("{figure:?}") };
    assert_eq!(panels[0].series[0].points[0].y, None);
    let plot = "kind = \"heat\"\nx = \"batch\"\ny = \"leader\"\nvalue = \"throughput_per_s\"";
    let Plot::Heat { panels, .. } = drawn(plot, fail).plot else { panic!("it is a heat map") };
    assert_eq!(panels[0].cells.iter().filter(|cell| cell.value.is_none()).count(), 1);
}

#[test]
fn a_run_that_completed_nothing_has_no_latency_and_a_place_on_a_logarithmic_axis() {
    let nothing = |rows: &mut Vec<Row>| {
        for row in rows.iter_mut().filter(|row| row.cell["batch"] == 100.into()) {
            row.figures = BTreeMap::from([("throughput_per_s".to_owned(), 0.0)]);
        }
    };
    let figure = drawn("kind = \"line\"\nx = \"batch\"\ny = \"throughput_per_s\"\nlog_x = true\nlog_y = true", nothing);
    assert!(figure.x.log && figure.y.log && figure.y.zero_place && !figure.x.zero_place);
    assert!(
        figure.caption.contains("0 stands before the break of the logarithmic vertical axis"),
        "{}",
        figure.caption
    );
    let figure = drawn("kind = \"curve\"\nx = \"throughput_per_s\"\ny = \"mean_ms\"", nothing);
    let Plot::Curve(panels) = &figure.plot else { panic!("{figure:?}") };
    let point = &panels[0].series[0].points[0];
    assert_eq!((point.x, point.y), (0.0, None));
    assert_eq!(point.hover.rows[0], ("failed".to_owned(), "has no mean_ms".to_owned()));
}

#[test]
fn intervals_that_reach_to_zero_fit_a_logarithmic_axis() {
    let figure = drawn("kind = \"bars\"\nx = \"batch\"\ny = \"throughput_per_s\"\nlog_y = true", |rows| {
        rows[0].figures.insert("throughput_per_s".into(), 1.0);
    });
    let Plot::Bars(panels) = &figure.plot else { panic!("{figure:?}") };
    assert!(figure.y.log);
    assert!(panels[0].series[0].bars[0].interval.is_some_and(|(low, _)| low > 0.0));
    assert!(figure.caption.contains("it is cut off there"), "{}", figure.caption);
}

#[test]
fn an_instrument_without_rows_is_named_and_its_claims_are_not_measurable() {
    let experiment = experiment(
        "[[plot]]\nkind = \"line\"\ntitle = \"A plot\"\nx = \"batch\"\ny = \"throughput_per_s\"\nseries = \"leader\"\n\
         [[claim]]\nid = \"real\"\ntext = \"It is fast.\"\nkind = \"bound\"\nfigure = \"throughput_per_s\"\n\
         instrument = \"real\"\nmin = 10\n\
         [[paper_value]]\nat = { batch = 100, leader = \"round-robin\" }\nfigure = \"throughput_per_s\"\nvalue = 17\n\
         source = \"section 5\"\n",
    );
    let plan = experiment.plan(Profile::Full, None).expect("it has cells");
    let mut rows = rows(&plan);
    let (both, _) = page_of(&plan, &rows);
    let Plot::Line(panels) = &figures(&both)[0].plot else { panic!("it is a line") };
    let names: Vec<&str> = panels[0].series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(
        names,
        ["fixed, simulated", "round-robin, simulated", "fixed, real", "round-robin, real", "round-robin"]
    );
    assert!(panels[0].series[4].paper, "the paper's values are of no instrument");
    rows.retain(|row| row.instrument == Instrument::Simulated);
    let (one, claims) = page_of(&plan, &rows);
    assert!(texts(&one).contains("No rows from: real."), "{}", texts(&one));
    assert_eq!(claims[0].verdict, Verdict::NotMeasurable);
    assert!(quorate_plots::page(&one).expect("it is sound").contains("not measurable here"));
    rows.clear();
    let (none, _) = page_of(&plan, &rows);
    assert!(figures(&none).is_empty() && texts(&none).contains("A plot: no cell of this figure was run."));
}

#[test]
fn every_verdict_appears_and_texts_are_escaped() {
    let claim = |id: &str, text: &str, min: u32, more: &str| {
        format!(
            "[[claim]]\nid = \"{id}\"\ntext = \"{text}\"\npaper = \"5 < 6\"\nkind = \"bound\"\n\
             figure = \"throughput_per_s\"\nmin = {min}\n{more}\n"
        )
    };
    let experiment = experiment(
        &[
            claim("holds", "a <b>bold</b> claim", 1, ""),
            claim("fails", "b", 100_000, "overturned = \"<script>alert(1)</script> is faster\""),
            claim("open", "c", 1010, "where = { batch = 100, leader = \"fixed\" }"),
            claim("elsewhere", "d", 1, "instrument = \"real\""),
        ]
        .concat(),
    );
    let plan = experiment.plan(Profile::Full, None).expect("it has cells");
    let mut rows = rows(&plan);
    rows.retain(|row| row.instrument == Instrument::Simulated);
    let (page, claims) = page_of(&plan, &rows);
    let verdicts: Vec<Verdict> = claims.iter().map(|claim| claim.verdict).collect();
    assert_eq!(verdicts, [Verdict::Holds, Verdict::Fails, Verdict::Undecided, Verdict::NotMeasurable]);
    let html = quorate_plots::page(&page).expect("it is sound");
    for verdict in verdicts {
        assert!(html.contains(&format!(">{verdict}</span>")), "{verdict}");
    }
    assert!(html.contains("a &lt;b&gt;bold&lt;/b&gt; claim") && !html.contains("<b>bold"), "escaped");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt; is faster") && !html.contains("<script>alert"));
    assert!(html.contains("5 &lt; 6"));
    assert!(page.lead[0].contains("1 holds, 1 does not hold, 1 undecided, 1 not measurable here"), "{:?}", page.lead);
}

#[test]
fn tables_say_what_was_held_and_how_often_cells_ran() {
    let experiment =
        experiment("[[plot]]\nkind = \"line\"\ntitle = \"A plot\"\nx = \"batch\"\ny = \"throughput_per_s\"");
    let plan = experiment.plan(Profile::Full, None).expect("it has cells");
    let mut rows = rows(&plan);
    rows[1].failure = Some("it hung".to_owned());
    let (page, _) = page_of(&plan, &rows);
    assert!(
        texts(&page).contains("Figure 3 of the paper. Profile full: 36 runs in 12 of 12 cells"),
        "{}",
        texts(&page)
    );
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    let tables: Vec<_> =
        blocks.filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None }).collect();
    let titles: Vec<&str> = tables[0].columns.iter().map(|column| column.title.as_str()).collect();
    assert_eq!(titles, ["batch", "leader", "instrument", "throughput (commands/s)", "runs", "steady"]);
    let row = tables[0].rows.iter().find(|row| row[2] == "real").expect("there are real cells");
    assert_eq!(row[..5], ["100", "fixed", "real", "1,010 ± 25", "3"]);
    let row = &tables[0].rows[0];
    assert_eq!(row[2..5], ["simulated", "–", "3, 1 failed"], "a cell with a failure has no figures");
    let held: Vec<&[String]> = tables[2].rows.iter().map(Vec::as_slice).collect();
    assert_eq!(held, [["payload", "16"], ["replicas", "4"]]);
    assert_eq!(tables[1].rows[0], ["batch", "100, 200, 400"]);
    assert!(tables[3].rows.iter().any(|row| row[1] == "0.1.0 commit 123abc release" && row[5] == "18"));
}

#[test]
fn simulated_cells_carry_the_residual_of_the_nearest_measured_one() {
    // The first one is an open loop, which is uninformative about a closed one.
    let json = r#"{"cells": [
        {"spec": {"batch": 100, "rate": 400000, "replicas": 4}, "throughput_ratio": 1, "p50_ratio": 9, "p99_ratio": 9},
        {"spec": {"batch": 400, "replicas": 4}, "throughput_ratio": 1.1, "cpu_ratio": 0.9, "p50_ratio": 1, "p99_ratio": 0.5},
        {"spec": {"batch": 100, "replicas": 4}, "throughput_ratio": 1.7, "cpu_ratio": 0.8, "p50_ratio": null, "p99_ratio": 0.6},
        {"spec": {"batch": 100, "replicas": 64}, "throughput_ratio": 9, "cpu_ratio": 9, "p50_ratio": 9, "p99_ratio": 9}
    ]}"#;
    let fidelity = Fidelity::parse(json).expect("it is of the documented form");
    let experiment =
        experiment("[[plot]]\nkind = \"line\"\ntitle = \"A plot\"\nx = \"batch\"\ny = \"throughput_per_s\"");
    let plan = experiment.plan(Profile::Full, None).expect("it has cells");
    let rows = rows(&plan);
    let claims = judge(&plan, &rows);
    let page = page(&[Finding { plan: &plan, rows: &rows, claims: &claims }], Some(&fidelity));
    let text = texts(&page);
    assert!(text.contains("throughput 1.70, CPU per command 0.80, p99 0.60 (batch 100, replicas 4)"), "{text}");
    assert!(!text.contains("9.00"), "{text}");
    let Plot::Line(panels) = &figures(&page)[0].plot else { panic!("it is a line") };
    let residual = |series: usize, point: usize| {
        let rows = &panels[0].series[series].points[point].hover.rows;
        rows.iter().find(|(name, _)| name == "simulated by measured").map(|(_, value)| value.as_str())
    };
    assert_eq!(residual(0, 2), Some("throughput 1.10, CPU per command 0.90, p50 1.00, p99 0.50"));
    assert_eq!(residual(2, 2), None, "real cells need none");
}

#[test]
fn a_page_of_several_experiments_is_written_with_its_figures() {
    let line = "kind = \"line\"\nx = \"batch\"\ny = \"throughput_per_s\"\nseries = \"leader\"";
    let experiment = experiment(&format!(
        "[[plot]]\ntitle = \"One\"\n{line}\n[[plot]]\ntitle = \"Two\"\nkind = \"bars\"\nx = \"batch\"\ny = \"mean_ms\"\n\
         panel = \"leader\""
    ));
    let plan = simulated(&experiment);
    let rows = rows(&plan);
    let finding = Finding { plan: &plan, rows: &rows, claims: &[] };
    // The same experiment twice, as with two profiles.
    let page = page(&[finding, finding], None);
    let ids: Vec<&str> = page.sections.iter().map(|section| section.id.as_str()).collect();
    assert_eq!(ids, ["overview", "mine-batches", "mine-batches_2"]);
    let dir = std::env::temp_dir().join(format!("quorate-page-{}", std::process::id()));
    assert_eq!(write(&dir, &page).expect("the directory can be written"), 4);
    let html = fs::read_to_string(dir.join("report.html")).expect("it was written");
    for forbidden in ["src=", "href=\"http", "url(", "@import", "<link", "fetch("] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    assert!(html.contains("Batches &amp; leaders"));
    for id in ["mine-batches-1", "mine-batches-2", "mine-batches_2-1", "mine-batches_2-2"] {
        let svg = fs::read_to_string(dir.join(format!("figures/{id}.svg"))).expect("it was written");
        assert!(svg.contains("<svg"), "{id}");
        assert!(fs::read(dir.join(format!("figures/{id}.pdf"))).expect("it was written").starts_with(b"%PDF"), "{id}");
    }
    fs::remove_dir_all(&dir).expect("it was just written");
}

#[test]
fn a_figure_that_cannot_be_drawn_says_so() {
    let values: Vec<String> = (0..40).map(|at| format!("\"leader {at}\"")).collect();
    let text = format!("{HEAD}[[plot]]\ntitle = \"A plot\"\nkind = \"line\"\nx = \"batch\"\ny = \"mean_ms\"")
        .replace("[\"fixed\", \"round-robin\"]", &format!("[{}]", values.join(", ")));
    let experiment = read(&text, "experiments/mine/many.toml", vocabulary()).unwrap_or_else(|fault| panic!("{fault}"));
    let plan = simulated(&experiment);
    let (page, _) = page_of(&plan, &rows(&plan));
    let text = texts(&page);
    assert!(text.contains("A plot cannot be drawn") && text.contains("40 series"), "{text}");
    assert!(quorate_plots::page(&page).is_ok());
}
