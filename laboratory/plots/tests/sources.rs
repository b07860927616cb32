//! Source of figures: TikZ for pgfplots, and Vega-Lite.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use quorate_plots::{Axis, Bar, BarSeries, Figure, Panel, Plot, Point, Series, Width, tikz, vega_lite};
use serde_json::Value;

use crate::samples;

const WIDTHS: [Width; 2] = [Width::Column, Width::Text];

fn picture(figure: &Figure) -> String {
    tikz(figure, Width::Text).unwrap_or_else(|error| panic!("{error}"))
}

fn specification(figure: &Figure) -> Value {
    let text = vega_lite(figure, Width::Text).unwrap_or_else(|error| panic!("{error}"));
    serde_json::from_str(&text).expect("a specification is JSON")
}

/// Returns the rows of the tables of a picture.
fn rows(picture: &str) -> Vec<Vec<&str>> {
    let lines = picture.lines().filter_map(|line| line.split_once("\\\\").map(|(row, _)| row.trim()));
    lines.map(|row| row.split_whitespace().collect()).collect()
}

/// Returns the values of the specification, without the rows that only end a step.
fn values(specification: &Value) -> Vec<&Value> {
    let all = specification["data"]["values"].as_array().expect("values");
    all.iter().filter(|row| row["is_end"].is_null()).collect()
}

fn points(figure: &Figure) -> Vec<&Point> {
    let (Plot::Curve(panels) | Plot::Line(panels) | Plot::Scatter(panels)) = &figure.plot else { return Vec::new() };
    panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points).collect()
}

#[test]
fn braces_and_environments_of_every_picture_are_balanced() {
    for figure in samples::all() {
        for width in WIDTHS {
            let text = tikz(&figure, width).expect("samples can be drawn");
            let code: String = text
                .lines()
                .map(|line| line.replace("\\%", "").replace("\\{", "").replace("\\}", ""))
                .map(|line| line.split('%').next().unwrap_or("").to_owned() + "\n")
                .collect();
            for (open, close) in [('{', '}'), ('[', ']')] {
                let mut depth = 0i32;
                for c in code.chars() {
                    depth += i32::from(c == open) - i32::from(c == close);
                    assert!(depth >= 0, "{}: `{close}` without `{open}`", figure.id);
                }
                assert_eq!(depth, 0, "{}: {open}", figure.id);
            }
            for name in ["tikzpicture", "groupplot"] {
                assert_eq!(code.matches(&format!("\\begin{{{name}}}")).count(), 1, "{}", figure.id);
                assert_eq!(code.matches(&format!("\\end{{{name}}}")).count(), 1, "{}", figure.id);
            }
            assert!(!code.contains("NaN") && !code.contains("inf,") && !code.contains(" -0 "), "{}", figure.id);
            assert!(text.contains("\\usepackage{pgfplots}"), "the file names its packages");
            assert!(text.contains(if width == Width::Column { "84.7 mm" } else { "177.8 mm" }), "{}", figure.id);
        }
    }
}

#[test]
fn a_picture_has_every_value_with_its_interval() {
    let figure = samples::curve();
    let picture = picture(&figure);
    let rows = rows(&picture);
    for point in points(&figure) {
        let y = point.y.expect("no point failed");
        let row = rows.iter().find(|row| row[0] == point.x.to_string() && row[1] == y.to_string());
        let row = row.unwrap_or_else(|| panic!("no row for {point:?}"));
        let number = |at: usize| row[at].parse::<f64>().expect("a number");
        if let (Some((low, high)), Some((left, right))) = (point.y_interval, point.x_interval) {
            let near = |one: f64, two: f64| (one - two).abs() < 1e-6 * two.abs().max(1.0);
            assert!(near(point.x - number(2), left) && near(point.x + number(3), right), "{row:?}");
            assert!(near(y - number(4), low) && near(y + number(5), high), "{row:?}");
        }
    }
    assert!(picture.contains("% alpha (paper)") && picture.contains("\\addlegendentry{alpha (paper)}"));
}

#[test]
fn a_failed_measurement_breaks_the_line_and_is_marked() {
    let picture = picture(&samples::line());
    assert!(picture.contains("  100 nan 0 0 \\\\"), "{picture}");
    assert!(picture.contains("% failed: out of memory after 12 s"), "{picture}");
    let rows = specification(&samples::line());
    let failed: Vec<&Value> = values(&rows).into_iter().filter(|row| !row["failed"].is_null()).collect();
    assert_eq!(failed.len(), 2, "one in each panel");
    assert!(failed.iter().all(|row| row["y"].is_null() && row["failed"] == "out of memory after 12 s"));
}

#[test]
fn stacks_have_their_segments_and_their_sums() {
    let series =
        |name: &str, value: f64| BarSeries { name: name.into(), paper: false, bars: vec![Bar::new("only", value)] };
    let plot = Plot::Stacked(vec![Panel::new("", vec![series("sign", 10.0), series("verify", 20.0)])]);
    let figure = Figure { plot, ..samples::stacked() };
    let picture = picture(&figure);
    let rows = rows(&picture);
    assert!(rows.contains(&vec!["0", "10", "10"]) && rows.contains(&vec!["0", "30", "20"]), "{rows:?}");
    let above = picture.find("% verify").expect("the upper segment");
    assert!(above < picture.find("% sign").expect("the lower one"), "the lower segment is drawn over the sum");
    let specification = specification(&figure);
    let ends: Vec<(&Value, &Value)> =
        values(&specification).into_iter().map(|row| (&row["from"], &row["to"])).collect();
    assert_eq!(ends, [(&0.0.into(), &10.0.into()), (&10.0.into(), &30.0.into())]);
}

#[test]
fn a_zero_has_its_place_in_both_sources() {
    let figure = samples::broken();
    let picture = picture(&figure);
    assert!(picture.contains("% 0 stands before the break of the horizontal axis"), "{picture}");
    assert!(picture.contains("xticklabels={{0},{0.25},{0.5}"), "{picture}");
    assert!(rows(&picture).iter().all(|row| row[0] != "0"), "a logarithmic axis has no 0");
    let specification = specification(&figure);
    let zero = values(&specification).into_iter().find(|row| row["x"] == 0.0).expect("the value itself is kept");
    assert!(zero["x_drawn"].as_f64().expect("a place") > 0.0);
    let axis = &specification["layer"][0]["encoding"]["x"];
    assert_eq!(axis["field"], "x_drawn");
    assert!(axis["axis"]["labelExpr"].as_str().expect("labels").starts_with("[\"0\",\"0.25\""), "{axis}");
}

#[test]
fn hostile_text_stays_text_in_tex() {
    let mut figure = samples::curve();
    let hostile = "50 % of $x_1$ & #2 {\\end{document}} ~^\u{7}\nnext";
    (figure.title, figure.caption, figure.x.label) = (hostile.into(), hostile.into(), hostile.into());
    let Plot::Curve(panels) = &mut figure.plot else { unreachable!("curves are curves") };
    panels[0].title = hostile.into();
    panels[0].series[0].name = hostile.into();
    let picture = picture(&figure);
    let shown = "50 \\% of \\$x\\_1\\$ \\& \\#2 \\{\\textbackslash{}end\\{document\\}\\} \\textasciitilde{}\\textasciicircum{} next";
    assert!(
        picture.contains(&format!("title={{{shown}}}")) && picture.contains(&format!("\\addlegendentry{{{shown}}}"))
    );
    // Text in a comment must end with its line.
    for line in picture.lines().filter(|line| line.contains("\\end{document}")) {
        assert!(line.starts_with("% "), "{line}");
    }
}

/// A unit has a mark and an encoding, a layer has units, and channels have a field, a value or a datum.
fn check_view(view: &Value, what: &str) {
    if let Some(views) = ["layer", "concat"].iter().find_map(|key| view[*key].as_array()) {
        assert!(!views.is_empty(), "{what}");
        return views.iter().for_each(|own| check_view(own, what));
    }
    let mark = view["mark"].as_str().or(view["mark"]["type"].as_str());
    let known = ["rule", "line", "point", "rect", "bar", "tick", "circle", "text"];
    assert!(mark.is_some_and(|mark| known.contains(&mark)), "{what}: {view}");
    let channels = view["encoding"].as_object().unwrap_or_else(|| panic!("{what}: no encoding: {view}"));
    for (name, channel) in channels {
        let has = |key: &str| !channel[key].is_null();
        assert!(has("field") || has("value") || has("datum"), "{what}: {name}: {channel}");
        let is_second = name.ends_with('2');
        assert!(!has("field") || is_second || has("type"), "{what}: {name} has no type: {channel}");
    }
}

#[test]
fn every_specification_has_the_required_fields_and_all_values() {
    for figure in samples::all() {
        let specification = specification(&figure);
        assert_eq!(specification["$schema"], "https://vega.github.io/schema/vega-lite/v5.json");
        check_view(&specification, &figure.id);
        let expected = points(&figure);
        if !expected.is_empty() {
            assert_eq!(values(&specification).len(), expected.len(), "{}", figure.id);
        }
    }
    let curve = specification(&samples::curve());
    for row in values(&curve).into_iter().filter(|row| row["paper"] == false) {
        assert!(row["command"].as_str().is_some_and(|own| own.starts_with("quorate ")), "{row}");
    }
}

#[test]
fn series_are_told_apart_by_dashes_and_shapes_too() {
    let specification = specification(&samples::broken());
    let layers = specification["layer"].as_array().expect("layers");
    let channel = |name: &str| {
        let channel = layers.iter().map(|layer| &layer["encoding"][name]).find(|channel| !channel.is_null());
        channel.unwrap_or_else(|| panic!("no layer has {name}"))["scale"]["range"].clone()
    };
    let dashes = channel("strokeDash");
    assert_ne!(dashes[1], dashes[2], "two lines without markers");
    let shapes = channel("shape");
    assert_ne!(shapes[0], shapes[3], "two series with markers");
}

#[test]
fn a_negative_zero_has_no_sign() {
    let series =
        Series { name: "ours".into(), points: vec![Point::new(-0.0, -0.0), Point::new(1.0, 2.0)], ..Series::default() };
    let plot = Plot::Line(vec![Panel::new("", vec![series])]);
    let (x, y) = (Axis::new("x", ""), Axis::new("y", ""));
    let figure = Figure { id: "zero".into(), title: "Zero".into(), caption: String::new(), x, y, plot };
    assert!(rows(&picture(&figure)).contains(&vec!["0", "0"]));
    let text = vega_lite(&figure, Width::Text).expect("can be drawn");
    assert!(!text.contains("-0.0"), "{text}");
    let blocks = vec![quorate_plots::Block::Figure(Box::new(figure))];
    let sections = vec![quorate_plots::Section { id: "one".into(), title: "One".into(), blocks }];
    let page = quorate_plots::Page { title: "Page".into(), lead: Vec::new(), sections, footer: String::new() };
    assert!(!quorate_plots::page(&page).expect("can be drawn").contains(">-0<"));
}

/// Compiles every picture if there is a TeX with pgfplots.
#[test]
fn tex_accepts_every_picture() {
    let found = Command::new("kpsewhich").arg("pgfplots.sty").output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("no TeX with pgfplots here: the pictures are not compiled");
        return;
    }
    let directory: PathBuf = env::temp_dir().join(format!("quorate-tikz-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("the directory for temporary files can be written");
    let mut document = String::from("\\documentclass{article}\n\\usepackage{pgfplots} \\pgfplotsset{compat=1.16}\n");
    document.push_str("\\usepgfplotslibrary{groupplots,statistics} \\usetikzlibrary{patterns}\n\\begin{document}\n");
    for figure in samples::all() {
        // TeX would take seconds for thousands of points.
        let figure = if figure.id == "scatter" { samples::scatter(100) } else { figure };
        let name = format!("{}.tex", figure.id);
        fs::write(directory.join(&name), tikz(&figure, Width::Column).expect("can be drawn")).expect("can be written");
        document.push_str(&format!("\\noindent\\fbox{{\\input{{{name}}}}}\\newpage\n"));
    }
    document.push_str("\\end{document}\n");
    fs::write(directory.join("all.tex"), document).expect("can be written");
    let arguments = ["-interaction=nonstopmode", "-halt-on-error", "all.tex"];
    let output = Command::new("pdflatex").args(arguments).current_dir(&directory).output().expect("pdflatex runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    fs::remove_dir_all(&directory).expect("it is ours");
    assert!(output.status.success(), "{said}");
}
