//! Rows as JSON, and the keys of cells.

use crate::common::{VOCABULARY, experiment, plan, read, rows, text};
use quorate_lab::experiments::row::{Noise, Sample};
use quorate_lab::experiments::{Plan, Profile, Row, Surroundings};
use std::collections::BTreeSet;

fn row() -> Row {
    let experiment = experiment("");
    let plan = plan(&experiment);
    let mut row = rows(&plan, |_, _| vec![1.5]).remove(0);
    row.series.insert("completed_per_s".into(), vec![1.0, 2.0]);
    row.samples.push(Sample { at_s: 0.5, latency_ms: 1.25 });
    row.noise =
        Some(Noise { steal_percent: 1.0, others_percent: 2.0, variation_percent: Some(3.0), ..Noise::default() });
    row.failure = Some("why".into());
    row.provenance.seed = u64::MAX;
    row.provenance.command = "quorate bench".into();
    row
}

#[test]
fn a_row_survives_json() {
    let row = row();
    let json = serde_json::to_string(&row).expect("plain data");
    assert_eq!(serde_json::from_str::<Row>(&json).expect("the same form"), row);
    assert!(json.contains("\"cell\":{\"batch\":100,\"leader\":\"fixed\"}"), "{json}");
    let unknown = json.replacen('{', "{\"unknown\":1,", 1);
    assert!(serde_json::from_str::<Row>(&unknown).is_err());
}

#[test]
fn figures_are_finite() {
    let mut row = row();
    row.set("p50_ms", 2.0);
    row.set("p99_ms", f64::NAN);
    row.set("max_ms", None);
    assert_eq!(row.figures.keys().collect::<Vec<_>>(), ["p50_ms", "throughput_per_s"]);
    assert_eq!(row.validate(&VOCABULARY), Ok(()));
    row.series.insert("p99_ms".into(), vec![1.0, f64::INFINITY]);
    let fault = row.validate(&VOCABULARY).expect_err("it is not finite").to_string();
    assert!(fault.contains("`p99_ms` is inf") && fault.contains("batch 100"), "{fault}");
    row.series.clear();
    row.noise =
        Some(Noise { steal_percent: 101.0, others_percent: 0.0, variation_percent: Some(3.0), ..Noise::default() });
    assert!(row.validate(&VOCABULARY).is_err());
}

fn surroundings() -> Surroundings {
    Surroundings { build: "1".into(), machine: "m".into(), ..Surroundings::default() }
}

#[test]
fn keys_differ_by_all_that_decides_a_result() {
    let experiment = experiment("");
    let plan = plan(&experiment);
    let keys: BTreeSet<_> = plan.cells.iter().map(|cell| cell.key(&surroundings())).collect();
    assert_eq!(keys.len(), plan.cells.len());
    let cell = &plan.cells[0];
    let key = cell.key(&surroundings());
    let others = [
        cell.key(&Surroundings { build: "2".into(), ..surroundings() }),
        cell.key(&Surroundings { machine: "n".into(), ..surroundings() }),
        cell.key(&Surroundings { costs: "c".into(), ..surroundings() }),
        cell.key(&Surroundings { inputs: "c".into(), ..surroundings() }),
        // Adjacent texts are delimited, so shifting a character between them changes the key.
        cell.key(&Surroundings { build: "1m".into(), machine: String::new(), ..surroundings() }),
        quorate_lab::experiments::Cell { outliers: quorate_lab::experiments::Outliers::Iqr, ..cell.clone() }
            .key(&surroundings()),
        quorate_lab::experiments::Cell { instrument: quorate_lab::experiments::Instrument::Real, ..cell.clone() }
            .key(&surroundings()),
    ];
    assert!(others.iter().all(|other| *other != key));
    let mut number = cell.clone();
    number.specification.insert("replicas".into(), toml_text("4"));
    assert_ne!(number.key(&surroundings()), key, "a text is no number");
}

fn toml_text(text: &str) -> quorate_lab::experiments::axes::SpecificationValue {
    quorate_lab::experiments::Value::from(text).to_toml()
}

#[test]
fn keys_do_not_depend_on_the_layout_of_the_file() {
    let base = text("");
    let moved = base.replace("[base]\nreplicas = 4\n", "") + "\n[base]\nreplicas   =   0x4 # four\n";
    let key = |text: &str| {
        let experiment = read(text, "other/name.toml").expect("it is sound");
        let plan: Plan = experiment.plan(Profile::Full, None).expect("it has cells");
        plan.cells[3].key(&surroundings())
    };
    assert_eq!(key(&base), key(&moved));
    // Computed by another program from the documented encoding: later builds have to find kept results.
    assert_eq!(key(&base).to_hex(), "9221cbefd4923cf8b0d8cf9aaf20928e8004a013324e208d3673f646fcc0cd01");
}

/// A damaged or edited file is refused rather than averaged.
#[test]
fn figures_and_samples_are_possible() {
    let refused = |change: &dyn Fn(&mut Row)| {
        let mut row = row();
        assert_eq!(row.validate(&VOCABULARY), Ok(()));
        change(&mut row);
        let fault = row.validate(&VOCABULARY).expect_err("it is impossible").to_string();
        assert!(fault.contains("impossible") && fault.contains("batch 100"), "{fault}");
    };
    for value in [-5.0, 1e300, -1e300, f64::NEG_INFINITY] {
        refused(&|row| {
            row.figures.insert("throughput_per_s".into(), value);
        });
        refused(&|row| {
            row.series.insert("p50_ms".into(), vec![1.0, value]);
        });
        refused(&|row| row.samples.push(Sample { at_s: 0.0, latency_ms: value }));
    }
    let mut row = row();
    row.set("remaining_slices", -5.0);
    row.samples.push(Sample { at_s: -0.5, latency_ms: 1.0 });
    assert_eq!(row.validate(&VOCABULARY), Ok(()));
}
