//! Pages: offline, safe against any text, and complete for readers without a pointer.

use quorate_plots::{Block, Chip, Column, Fact, Figure, Hover, Note, Page, Plot, Section, Table, Tile, Tone, page};
use serde_json::Value;

use crate::samples;

fn gallery() -> String {
    page(&samples::page()).expect("the samples can be drawn")
}

fn page_of(figure: Figure) -> Page {
    let blocks = vec![Block::Figure(Box::new(figure))];
    let sections = vec![Section { id: "only".into(), title: "Only".into(), blocks }];
    Page { title: "Page".into(), lead: Vec::new(), sections, footer: String::new() }
}

/// Returns the texts between each `from` and the next `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    text.split(from).skip(1).map(|rest| rest.split(to).next().unwrap_or("")).collect()
}

fn tooltips(html: &str, id: &str) -> Value {
    let data = between(html, &format!("<script type=\"application/json\" id=\"{id}~data\">"), "</script>");
    assert_eq!(data.len(), 1, "{id} has its data once");
    serde_json::from_str(data[0]).expect("data is JSON")
}

#[test]
fn nothing_is_fetched_from_anywhere() {
    let html = gallery();
    for wrong in
        ["src=", "url(", "@import", "fetch(", "XMLHttpRequest", "import(", "<link", "<iframe", "<object", "<base"]
    {
        assert!(!html.contains(wrong), "the page contains {wrong}");
    }
    // A namespace name is the only address, and nothing is fetched from it.
    assert!(!html.replace("http://www.w3.org/2000/svg", "").contains("://"), "the page contains an address");
    assert!(between(&html, "href=\"", "\"").iter().all(|link| link.starts_with('#')));
    assert!(html.contains("default-src 'none'"), "the browser forbids requests");
}

#[test]
fn links_and_figures_resolve_and_names_are_unique() {
    let html = gallery();
    let ids = between(&html, " id=\"", "\"");
    for link in between(&html, "href=\"#", "\"") {
        assert!(ids.contains(&link), "#{link} leads nowhere");
    }
    for id in between(&html, "data-figure=\"", "\"") {
        assert!(ids.contains(&format!("{id}~data").as_str()), "{id} has no data");
    }
    for id in &ids {
        assert_eq!(ids.iter().filter(|other| *other == id).count(), 1, "{id}");
    }
}

#[test]
fn every_value_has_a_tooltip_with_its_command() {
    let html = gallery();
    for figure in samples::all() {
        let data = tooltips(&html, &figure.id);
        let strings = data["strings"].as_array().expect("strings");
        let text = |index: &Value| strings[index.as_u64().expect("an index") as usize].as_str().expect("text");
        let panels = data["panels"].as_array().expect("panels");
        for layout in data["frames"].as_array().expect("two layouts") {
            assert_eq!(layout.as_array().map(Vec::len), Some(panels.len()), "{}", figure.id);
        }
        let marks: Vec<&Value> = panels.iter().flat_map(|panel| panel.as_array().expect("marks")).collect();
        assert!(!marks.is_empty());
        for mark in marks {
            let fields = mark.as_array().expect("a mark is an array");
            assert!(fields[..4].iter().all(|place| (0..=10_000).contains(&place.as_i64().expect("a place"))));
            let names: Vec<&str> = fields[6..].chunks(2).map(|row| text(&row[0])).collect();
            assert!(names.len() >= 2, "{}: {names:?}", figure.id);
            let told = fields[5].as_i64() == Some(-1) || text(&fields[5]).starts_with("quorate ");
            assert!(told, "{}: {mark}", figure.id);
        }
    }
    let data = tooltips(&html, "curve");
    let first = &data["panels"][0][0];
    let strings = &data["strings"];
    let said: Vec<&str> = first.as_array().expect("a mark")[4..]
        .iter()
        .filter_map(|at| strings[at.as_u64()? as usize].as_str())
        .collect();
    assert_eq!(
        said,
        [
            "alpha",
            "quorate bench --protocol alpha --rate 13100 --duration 20s --seed 7",
            "throughput",
            "13,100 commands/s",
            "throughput, interval",
            "12,904 to 13,231",
            "median latency",
            "5.294 ms",
            "median latency, interval",
            "4.976 to 5.77",
            "offered load",
            "10 %",
            "p99",
            "12.2 ms"
        ]
    );
}

#[test]
fn series_can_be_hidden_and_figures_magnified() {
    let html = gallery();
    let drawing = between(&html, "data-figure=\"curve\" data-layout=\"0\">", "</svg>")[0];
    for entry in 0..4 {
        assert_eq!(drawing.matches(&format!("<g class=\"key\" data-entry=\"{entry}\">")).count(), 1, "in the legend");
        assert_eq!(drawing.matches(&format!("<g data-entry=\"{entry}\">")).count(), 1, "its data");
    }
    let data = tooltips(&html, "curve");
    let entries: Vec<i64> = data["entries"][0].as_array().expect("entries").iter().filter_map(Value::as_i64).collect();
    let expected: Vec<i64> = (0..4).flat_map(|entry| [entry; 8]).collect();
    assert_eq!(entries, expected, "each mark belongs to a line of the legend");
    for figure in samples::all() {
        let data = tooltips(&html, &figure.id);
        let count = |name: &str| data[name].as_array().expect("panels").iter().map(|own| own.as_array().map(Vec::len));
        assert!(count("entries").eq(count("panels")), "{}", figure.id);
    }
    for part in ["\"viewBox\"", "dblclick", ".off"] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn every_value_is_in_a_table_for_screen_readers() {
    let html = gallery();
    let tables = between(&html, "<summary>Values</summary>", "</details>");
    assert_eq!(tables.len(), samples::all().len());
    let rows = |table: &str| between(table, "<tr>", "</tr>").len() - 1;
    assert_eq!(rows(tables[0]), 32, "four series of eight points");
    assert!(tables[1].contains("out of memory after 12 s"), "failures are results");
    assert!(tables[6].contains("The first 400 of 4000 values"), "a long table says that it ends");
    assert_eq!(rows(tables[6]), 400);
    assert_eq!(html.matches("tabindex=\"0\" role=\"group\"").count(), 2 * tables.len(), "figures take the keyboard");
}

#[test]
fn both_schemes_and_both_widths_are_there() {
    let html = gallery();
    for part in
        ["prefers-color-scheme: dark", "--series-0: #0f62b4", "--series-0: #5fa8f5", "max-width: 700px", "@media print"]
    {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(html.matches("class=\"plot wide\"").count(), html.matches("class=\"plot narrow\"").count());
    let drawings = between(&html, "<svg ", "</svg>");
    for fixed in ["#0f62b4", "#5fa8f5"] {
        assert!(drawings.iter().all(|svg| !svg.contains(fixed)), "colours come from the style sheet");
    }
}

#[test]
fn verdicts_are_words_not_only_colours() {
    let html = gallery();
    for words in ["holds", "does not hold", "undecided", "not measurable here"] {
        assert!(html.contains(&format!("\">{words}</span>")), "{words}");
    }
}

#[test]
fn statements_and_facts_are_words_in_the_order_given() {
    let html = gallery();
    let main = html.split("</header>").nth(1).expect("a header");
    let parts = [
        "<li class=\"good\">✓ All replicas agree</li>",
        "<li class=\"bad\">✗ Agreement is violated</li>",
        "<b>131,204</b> <span>commands/s</span>",
        "<div class=\"note good\"><b>The cluster was safe</b>",
        "<details class=\"note open\"><summary><b>Evidence of misbehaviour</b>",
        "<li>another reason</li></ul></details>",
        "<div title=\"Help\"><dt>--replicas</dt><dd>4</dd></div>",
        "<div class=\"marked\" title=\"Help\"><dt>--batch</dt><dd>100</dd></div>",
        "<dt>Throughput</dt><dd>Commands completed",
        "<h2>Claims</h2>",
    ];
    let mut rest = main;
    for part in parts {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("no {part} where it belongs")).1;
    }
    assert!(!html.contains("<h2></h2>") && !html.contains("href=\"#summary\""), "a section without a heading");
}

#[test]
fn a_command_has_no_line_breaks_within_a_flag() {
    let html = gallery();
    assert!(html.contains("<span>cargo</span> <span>run</span> <span>-p</span> <span>quorate-plots</span>"));
}

#[test]
fn text_between_backticks_is_code() {
    let shown = |text: &str| {
        let blocks = vec![Block::Paragraph(text.into())];
        let sections = vec![Section { id: "only".into(), title: "Only".into(), blocks }];
        page(&Page { title: "Page".into(), lead: Vec::new(), sections, footer: String::new() }).expect("it is sound")
    };
    assert!(
        shown("run `quorate lab --dir <d>` or `x`.")
            .contains("<p>run <code>quorate lab --dir &lt;d&gt;</code> or <code>x</code>.</p>")
    );
    assert!(shown("a single ` stays").contains("<p>a single ` stays</p>"));
}

#[test]
fn long_tables_can_be_folded_out() {
    let table = |count: usize| {
        let columns = vec![Column { title: "n".into(), numeric: true }];
        let rows = (0..count).map(|at| vec![format!("row {at}")]).collect();
        let blocks = vec![Block::Table(Table { caption: "A caption".into(), columns, rows })];
        let sections = vec![Section { id: "only".into(), title: "Only".into(), blocks }];
        let own = Page { title: "Page".into(), lead: Vec::new(), sections, footer: String::new() };
        page(&own).expect("it is sound")
    };
    assert!(!table(20).contains("<details>"));
    let long = table(21);
    assert!(long.contains("<summary>Table of 21 rows</summary>") && long.contains("row 20"));
}

#[test]
fn hostile_text_stays_text() {
    let hostile = "</script><script>alert(1)</script><img onerror='x'>\"'&\u{0}\u{7}<!--";
    let mut figure = samples::curve();
    (figure.title, figure.caption, figure.x.label, figure.y.unit) =
        (hostile.into(), hostile.into(), hostile.into(), hostile.into());
    let Plot::Curve(panels) = &mut figure.plot else { unreachable!("curves are curves") };
    panels[0].title = hostile.into();
    for series in &mut panels[0].series {
        series.name = hostile.into();
        let hover = Hover { rows: vec![(hostile.into(), hostile.into())], command: Some(hostile.into()) };
        series.points.iter_mut().for_each(|point| point.hover = hover.clone());
    }
    let mut hostile_page = page_of(figure);
    hostile_page.title = hostile.into();
    hostile_page.sections[0].title = hostile.into();
    hostile_page.lead.push(hostile.into());
    hostile_page.footer = hostile.into();
    let tile = Tile { name: hostile.into(), value: hostile.into(), unit: hostile.into() };
    let fact = Fact { name: hostile.into(), value: hostile.into(), marked: true, help: hostile.into() };
    let (title, text, items) = (hostile.into(), hostile.into(), vec![hostile.into()]);
    hostile_page.sections[0].blocks.extend([
        Block::Paragraph(hostile.into()),
        Block::Command(hostile.into()),
        Block::Chips(vec![Chip { tone: Tone::Good, text: hostile.into() }]),
        Block::Tiles(vec![tile]),
        Block::Facts(vec![fact]),
        Block::Terms(vec![(hostile.into(), hostile.into())]),
        Block::Note(Note { tone: Tone::Bad, title, text, items, folded: true }),
    ]);
    let html = page(&hostile_page).expect("any text can be shown");
    assert_eq!(html.matches("<script").count(), 2, "the data and the page's own script");
    assert!(!html.contains("<img") && !html.contains("<!--") && !html.contains('\u{0}'));
    let strings = tooltips(&html, "curve")["strings"].clone();
    assert!(strings.as_array().expect("strings").iter().any(|text| text == hostile), "the tooltip says it as it is");
}

#[test]
fn ten_thousand_requests_make_a_page_of_less_than_two_megabytes() {
    let html = page(&page_of(samples::scatter(10_000))).expect("can be drawn");
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    let data = tooltips(&html, "scatter");
    assert_eq!(data["panels"][0].as_array().map(Vec::len), Some(10_000));
}

#[test]
fn an_empty_page_is_a_page() {
    let empty = Page { title: "Nothing".into(), lead: Vec::new(), sections: Vec::new(), footer: String::new() };
    let html = page(&empty).expect("a page may be empty");
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
}
