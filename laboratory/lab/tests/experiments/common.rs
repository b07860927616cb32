//! Experiments and rows shared by tests.

use quorate_lab::experiments::figures::{Figure, Fold, Vocabulary};
use quorate_lab::experiments::{Experiment, Instrument, Judgement, Plan, Profile, Row, judge};
use quorate_types::Fault;
use std::collections::BTreeMap;

/// Figures known to these tests.
pub const VOCABULARY: Vocabulary = Vocabulary {
    figures: &[
        Figure::new("throughput_per_s", "commands/s", "commands completed"),
        Figure::new("mean_ms", "ms", "mean latency"),
        Figure::new("p50_ms", "ms", "median latency"),
        Figure::new("p99_ms", "ms", "99th percentile of the latency"),
        Figure::new("max_ms", "ms", "highest latency"),
        Figure { fold: Fold::ShareOf("requests"), ..Figure::new("success_probability", "", "requests that succeed") },
        Figure::new("requests", "requests", "requests behind it"),
        Figure::new("success_p50_ms", "ms", "median of the time until a request succeeds"),
        Figure { signed: true, ..Figure::new("remaining_slices", "slices", "logic that remains") },
    ],
    series: &[Figure::new("completed_per_s", "commands/s", "commands completed")],
};

/// Reads an experiment that may name these figures.
pub fn read(text: &str, file: &str) -> Result<Experiment, Fault> {
    quorate_lab::experiments::read(text, file, VOCABULARY)
}

/// An experiment with the axes `batch` (100, 200, 400, 800) and `leader` (fixed, rotating), followed by more text.
pub fn text(more: &str) -> String {
    format!(
        r#"
title = "Batches"
paper = "mine"
about = "How batches and leaders change the throughput."
instruments = ["simulated", "real"]

[base]
replicas = 4

[[axis]]
key = "batch"
from = 100
to = 800
factor = 2

[[axis]]
key = "leader"
values = ["fixed", "rotating"]

[repeat]
min = 2
max = 5
{more}
"#
    )
}

pub fn experiment(more: &str) -> Experiment {
    read(&text(more), "experiments/mine/batches.toml").unwrap_or_else(|fault| panic!("{fault}"))
}

/// Rows with `of`'s values of `throughput_per_s` for each cell, one per repetition.
pub fn rows(plan: &Plan, of: impl Fn(f64, &str) -> Vec<f64>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cell in &plan.cells {
        let batch = cell.get("batch").and_then(|value| value.as_number()).unwrap_or(0.0);
        let leader = cell.get("leader").and_then(|value| value.as_text()).unwrap_or("");
        for (repetition, value) in of(batch, leader).into_iter().enumerate() {
            rows.push(Row {
                experiment: plan.experiment.name(),
                instrument: cell.instrument,
                profile: plan.profile,
                cell: cell.values(),
                repetition: repetition as u32,
                figures: BTreeMap::from([("throughput_per_s".to_owned(), value)]),
                series: BTreeMap::new(),
                samples: Vec::new(),
                stages: Vec::new(),
                noise: None,
                failure: None,
                not_measurable: None,
                warnings: Vec::new(),
                provenance: Default::default(),
            });
        }
    }
    rows
}

pub fn plan(experiment: &Experiment) -> Plan<'_> {
    experiment.plan(Profile::Full, Some(&[Instrument::Simulated])).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Judges the only claim of an experiment.
pub fn judged(claim: &str, of: impl Fn(f64, &str) -> Vec<f64>) -> Judgement {
    let experiment =
        experiment(&format!("[[claim]]\nid = \"c\"\ntext = \"t\"\nfigure = \"throughput_per_s\"\n{claim}"));
    let plan = plan(&experiment);
    let rows = rows(&plan, of);
    judge(&plan, &rows).remove(0)
}
