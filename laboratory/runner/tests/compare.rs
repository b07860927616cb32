//! Comparison of two directories.

use crate::common::{experiment, row};
use quorate_lab::experiments::{Instrument, Profile, Row};
use quorate_operator::report::Report;
use quorate_runner::compare::{check_figures, compare};
use quorate_runner::report::Archived;
use quorate_runner::store::Record;

fn archived(rows: Vec<Row>) -> Vec<Archived> {
    let experiment = experiment("", "");
    let record = Record {
        file: "mine.toml".into(),
        text: String::new(),
        profile: Profile::Quick,
        seed: None,
        cells: Default::default(),
    };
    vec![Archived { record, experiment, profile: Profile::Quick, instruments: vec![Instrument::Real], rows }]
}

fn runs(batch: i64, throughputs: &[f64]) -> Vec<Row> {
    let runs = throughputs.iter().enumerate();
    runs.map(|(at, value)| row(batch, at as u32, &[("throughput_per_s", *value)])).collect()
}

fn figures() -> Vec<String> {
    vec!["throughput_per_s".to_owned()]
}

#[test]
fn a_difference_is_significant_if_it_exceeds_the_spread() {
    let before = archived([runs(10, &[100.0, 102.0, 98.0]), runs(400, &[100.0, 150.0, 60.0])].concat());
    let after = archived([runs(10, &[150.0, 152.0, 149.0]), runs(400, &[120.0, 170.0, 70.0])].concat());
    let found = compare(&before, &after, &figures());
    let verdicts: Vec<_> = found.comparisons.iter().map(|own| own.is_significant).collect();
    assert_eq!(verdicts, [Some(true), Some(false)]);
    let ratio = found.comparisons[0].ratio.expect("values above 0");
    assert!((ratio.ratio - 1.503).abs() < 0.01, "{ratio:?}");
    assert!(ratio.interval.is_some_and(|own| own.low > 1.4 && own.high < 1.6), "{ratio:?}");
    assert!(found.to_table().contains("1 of 2 differences are significant"), "{}", found.to_table());
}

#[test]
fn one_run_decides_nothing_and_failures_do_not_count() {
    let mut failed = runs(400, &[100.0]);
    failed[0].failure = Some("why".into());
    let before = archived([runs(10, &[100.0]), failed].concat());
    let after = archived([runs(10, &[300.0, 301.0]), runs(400, &[1.0])].concat());
    let found = compare(&before, &after, &figures());
    assert_eq!((found.comparisons.len(), found.only_before, found.only_after), (1, 0, 1));
    assert_eq!(found.comparisons[0].is_significant, None);
    let json: serde_json::Value = serde_json::from_str(&found.to_json()).expect("JSON");
    assert_eq!(json["comparisons"][0]["after_runs"], 2);
}

#[test]
fn only_figures_can_be_compared() {
    assert!(check_figures(&figures()).is_ok());
    let error = check_figures(&["p50".to_owned()]).expect_err("it is none").to_string();
    assert!(error.contains("did you mean `p50_ms`?"), "{error}");
}

#[test]
fn only_significantly_more_work_is_worse() {
    let runs = |batch: i64, figure: &str, values: &[f64]| {
        let rows = values.iter().enumerate().map(|(at, value)| row(batch, at as u32, &[(figure, *value)]));
        rows.collect::<Vec<_>>()
    };
    let before = [runs(1, "cpu_us_per_command", &[1.0, 1.01, 0.99]), runs(2, "p50_ms", &[1.0, 1.01, 0.99])];
    let after = [runs(1, "cpu_us_per_command", &[1.05, 1.06, 1.04]), runs(2, "p50_ms", &[2.0, 2.01, 1.99])];
    let figures = ["cpu_us_per_command".to_owned(), "p50_ms".to_owned()];
    let found = compare(&archived(before.concat()), &archived(after.concat()), &figures);
    let worse = |limit| found.worse(limit).iter().map(|own| own.figure.as_str()).collect::<Vec<_>>();
    assert_eq!(worse(3.0), ["cpu_us_per_command"]);
    assert!(worse(10.0).is_empty());
    let back = compare(&archived(after.concat()), &archived(before.concat()), &figures);
    assert!(back.worse(3.0).is_empty(), "less work is not worse");
}

#[test]
fn simulations_of_the_same_seeds_are_compared_in_pairs() {
    let simulated = |values: &[f64]| {
        let mut rows = runs(10, values);
        rows.iter_mut().for_each(|row| row.instrument = Instrument::Simulated);
        rows
    };
    let (before, after) = (simulated(&[100.0, 200.0, 400.0]), simulated(&[101.0, 202.1, 404.0]));
    let found = compare(&archived(before.clone()), &archived(after.clone()), &figures());
    let ratio = found.comparisons[0].ratio.expect("values above 0");
    assert!((ratio.ratio - 1.01).abs() < 0.001, "{ratio:?}");
    assert_eq!(found.comparisons[0].is_significant, Some(true), "the seeds differ, and each pair by 1 %");

    let mut other_seeds = after;
    other_seeds.iter_mut().for_each(|row| row.provenance.seed += 1);
    let found = compare(&archived(before), &archived(other_seeds), &figures());
    assert_eq!(found.comparisons[0].is_significant, Some(false), "nothing pairs them");
}
