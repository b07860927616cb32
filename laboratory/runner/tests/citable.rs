//! Figures that an author can cite: their source, captions, units and BibTeX entries.

use crate::common::Scratch;
use crate::page::{drawn, experiment, paper_value, rows, simulated};
use quorate_lab::experiments::read;
use quorate_lab::figures::vocabulary;
use quorate_plots::Plot;
use quorate_runner::bibtex;
use quorate_runner::page::reproduction::{CATALOGUE, Catalogue};
use quorate_runner::page::{Columns, Finding, page, write_figures};
use std::collections::BTreeSet;
use std::fs;

const LINE: &str = "kind = \"line\"\nx = \"batch\"\ny = \"throughput_per_s\"\nseries = \"leader\"\n";
const CURVE: &str = "kind = \"curve\"\nx = \"throughput_per_s\"\ny = \"mean_ms\"\nseries = \"leader\"\n";

#[test]
fn each_figure_is_written_in_four_formats_and_either_width() {
    let experiment = experiment(&format!("[[plot]]\ntitle = \"One\"\n{LINE}"));
    let plan = simulated(&experiment);
    let rows = rows(&plan);
    let page = page(&[Finding { plan: &plan, rows: &rows, claims: &[] }], None);
    let scratch = Scratch::new("formats");
    for (columns, mm, points) in [(Columns::One, "84.7 mm", "240pt"), (Columns::Two, "177.8 mm", "504pt")] {
        assert_eq!(write_figures(&scratch.0, &page, Some(columns)).expect("it can be written"), 1);
        let text = |ending: &str| fs::read_to_string(scratch.0.join(format!("mine-batches-1.{ending}")));
        let text = |ending: &str| text(ending).unwrap_or_else(|error| panic!("{ending}: {error}"));
        assert!(text("tex").contains(mm) && text("tex").contains("\\begin{tikzpicture}"));
        assert!(text("svg").contains(&format!("width=\"{points}\"")) && text("svg").contains("<desc>"));
        let specification: serde_json::Value = serde_json::from_str(&text("vl.json")).expect("it is JSON");
        let values = specification["data"]["values"].as_array().expect("its values");
        assert_eq!(values.len(), 6, "three batches of two leaders");
        assert!(values.iter().all(|row| row["command"].as_str().is_some_and(|own| own.starts_with("quorate sim "))));
        assert!(fs::read(scratch.0.join("mine-batches-1.pdf")).expect("it was written").starts_with(b"%PDF"));
    }
}

#[test]
fn a_caption_says_where_its_values_come_from() {
    let figure = drawn(LINE, |rows| {
        rows[0].provenance.surroundings.build = "0.2.0 commit 456def release".to_owned();
        for (at, row) in rows.iter_mut().enumerate() {
            row.provenance.seed = 7 + at as u64 % 3;
            row.provenance.surroundings.machine = "virtual time".to_owned();
        }
    });
    let expected = "Origin: simulated, profile full; build 0.1.0 commit 123abc release; 0.2.0 commit 456def release; \
                    machine virtual time; seeds 7 to 9; repeat with `quorate lab run mine/batches --profile full`.";
    assert!(figure.caption.ends_with(expected), "{}", figure.caption);
}

#[test]
fn fractions_are_shown_in_percent_where_the_file_says_so() {
    let figure = drawn(&format!("{LINE}percent_x = true\npercent_y = true"), |_| {});
    let Plot::Line(panels) = &figure.plot else { panic!("{figure:?}") };
    let point = &panels[0].series[0].points[0];
    assert_eq!((point.x, point.y), (10_000.0, Some(101_000.0)));
    assert!(point.y_interval.is_some_and(|(low, high)| low < 101_000.0 && high > 101_000.0 && high < 110_000.0));
    assert_eq!((figure.x.title().as_str(), figure.y.title().as_str()), ("batch (%)", "throughput (%)"));
    let heat = "kind = \"heat\"\nx = \"batch\"\ny = \"leader\"\nvalue = \"throughput_per_s\"";
    for (plot, says) in [
        (format!("{heat}\npercent_x = true"), "key `plot[1].percent_x`: means nothing on this axis of a heat plot"),
        (format!("{LINE}x_unit = \"s\"\npercent_x = true"), "`x_unit` names another unit; help: leave one of them out"),
    ] {
        let text = format!(
            "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"simulated\"]\n[[axis]]\nkey = \"batch\"\n\
             values = [1]\n[[axis]]\nkey = \"leader\"\nvalues = [\"fixed\"]\n[[plot]]\ntitle = \"t\"\n{plot}"
        );
        let fault = read(&text, "mine.toml", vocabulary()).expect_err("it is refused").to_string();
        assert!(fault.contains(says), "{fault}");
    }
}

#[test]
fn no_value_of_the_paper_is_left_out_without_a_word() {
    let values = [
        paper_value("batch = 100, leader = \"fixed\"", "throughput_per_s", 17000.0),
        paper_value("batch = 100, leader = \"fixed\"", "mean_ms", 3.0),
        paper_value("batch = 200, leader = \"fixed\"", "throughput_per_s", 18000.0),
        paper_value("batch = 400, leader = \"round-robin\"", "mean_ms", 9.5),
    ];
    let figure = drawn(&format!("{CURVE}{}", values.concat()), |_| {});
    let expected = "Values of the paper that are not drawn, because the paper gives only one of the two coordinates: \
                    mean latency 9.5 ms at batch 400, leader round-robin (section 5); \
                    throughput 18,000 commands/s at batch 200, leader fixed (section 5).";
    assert!(figure.caption.contains(expected), "{}", figure.caption);
    let one = format!("{LINE}{}", paper_value("batch = 100, leader = \"fixed\"", "throughput_per_s", 17000.0));
    let figure = drawn(&one, |_| {});
    assert!(!figure.caption.contains("not drawn"), "{}", figure.caption);
    let figure = drawn(&one, |rows| rows.retain(|row| row.cell["leader"] != "fixed".into()));
    assert!(
        figure.caption.contains("1 value of the paper belongs to a series that was not run, and not drawn."),
        "{}",
        figure.caption
    );
}

#[test]
fn zero_and_negative_values_meet_a_logarithmic_axis() {
    let at = |value: f64| {
        let plot = "kind = \"box\"\nx = \"batch\"\ny = \"throughput_per_s\"\nlog_y = true";
        drawn(plot, move |rows| {
            for row in rows.iter_mut().filter(|row| row.cell["batch"] == 100.into()) {
                row.figures.insert("throughput_per_s".to_owned(), value);
            }
        })
    };
    let zero = at(0.0);
    assert!(zero.y.log && zero.y.zero_place, "{:?}", zero.y);
    let negative = at(-1.0);
    assert!(!negative.y.log && negative.caption.contains("axis is linear, because it has negative values"));
    let usual = at(5.0);
    assert!(usual.y.log && !usual.y.zero_place && !usual.caption.contains("break"), "{}", usual.caption);
}

/// Returns the entries of a bibliography as key and text, after checking that braces are balanced.
fn bibliography(text: &str) -> Vec<(&str, &str)> {
    let depth = |text: &str| text.chars().map(|c| i32::from(c == '{') - i32::from(c == '}')).sum::<i32>();
    let entries = text.split("\n\n").map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            assert_eq!(depth(entry), 0, "{entry}");
            let (kind, rest) = entry.split_once('{').expect("an entry opens");
            assert!(["@misc", "@inproceedings"].contains(&kind), "{entry}");
            assert!(entry.contains("  title = {") && entry.contains("  author = {"), "{entry}");
            (rest.split_once(',').expect("it has a key").0, entry)
        })
        .collect()
}

#[test]
fn a_bibliography_has_the_runs_and_the_papers_that_they_reproduce() {
    let catalogue = Catalogue::parse(CATALOGUE).expect("it is sound");
    let of_paper = "title = \"Ratios & 50 % of {it}\"\npaper = \"transports\"\nfigure = \"8\"\nabout = \"a\"\n\
                    instruments = [\"simulated\"]\n[[axis]]\nkey = \"batch\"\nvalues = [100]\n";
    let reproduced = read(of_paper, "experiments/transports/fig8.toml", vocabulary()).expect("it is sound");
    let own = experiment("");
    let plans = [simulated(&reproduced), simulated(&own), simulated(&reproduced)];
    let own_rows = rows(&plans[1]);
    let findings = [
        Finding { plan: &plans[0], rows: &[], claims: &[] },
        Finding { plan: &plans[1], rows: &own_rows, claims: &[] },
        Finding { plan: &plans[2], rows: &[], claims: &[] },
    ];
    let text = bibtex::entries(&catalogue, &findings);
    let entries = bibliography(&text);
    let keys: Vec<&str> = entries.iter().map(|(key, _)| *key).collect();
    assert_eq!(
        keys,
        ["vonseck2024transports", "quorate-transports-fig8-full", "quorate-mine-batches-full"],
        "each entry once"
    );
    assert!(entries[1].1.contains("Reproduces figure 8 of vonseck2024transports"), "{}", entries[1].1);
    assert!(entries[1].1.contains("Ratios \\& 50 \\% of  it"), "{}", entries[1].1);
    assert!(entries[1].1.contains("Repeat with: quorate lab run transports/fig8 --profile full"), "{}", entries[1].1);
    assert!(entries[2].1.contains("Build: 0.1.0 commit 123abc release"), "{}", entries[2].1);
}

#[test]
fn every_paper_of_the_catalogue_can_be_cited() {
    let catalogue = Catalogue::parse(CATALOGUE).expect("it is sound");
    let papers = catalogue.papers.iter().filter(|paper| !paper.title.starts_with("No paper"));
    let entries: Vec<&str> = papers.map(|paper| paper.bibtex.trim()).collect();
    assert_eq!(entries.len(), 5);
    let text = entries.join("\n\n");
    let keys: BTreeSet<&str> = bibliography(&text).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), 5, "{keys:?}");
    for entry in entries {
        assert!(
            entry.contains("year = {20") && (entry.contains("doi = {10.") || entry.contains("eprint = {")),
            "{entry}"
        );
    }
}
