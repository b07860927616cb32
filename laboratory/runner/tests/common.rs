//! Experiments, rows and directories shared by tests.

use quorate_lab::experiments::row::{Noise, Provenance};
use quorate_lab::experiments::{Experiment, Instrument, Profile, Row, Value, read};
use quorate_lab::figures::vocabulary;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Temporary directory, removed on drop.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("quorate-runner-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the temporary directory can be written");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An experiment with `base`, followed by more text.
pub fn experiment(base: &str, more: &str) -> Experiment {
    let text = format!(
        "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"real\", \"simulated\"]\n[base]\n{base}\n{more}"
    );
    read(&text, "mine.toml", vocabulary()).unwrap_or_else(|fault| panic!("{fault}"))
}

/// A row of `mine/x` with these figures, at one batch size.
pub fn row(batch: i64, repetition: u32, figures: &[(&str, f64)]) -> Row {
    Row {
        experiment: "mine/x".into(),
        instrument: Instrument::Real,
        profile: Profile::Quick,
        cell: BTreeMap::from([("batch".into(), Value::from(batch)), ("leader".into(), Value::from("fixed"))]),
        repetition,
        figures: figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        series: BTreeMap::from([("completed_per_s".to_owned(), vec![10.0, 30.0])]),
        samples: Vec::new(),
        stages: Vec::new(),
        noise: Some(Noise { steal_percent: 1.5, variation_percent: Some(20.0), ..Noise::default() }),
        failure: None,
        not_measurable: None,
        warnings: vec!["a \"quoted\" word, and a comma".into()],
        provenance: Provenance {
            seed: u64::from(repetition) + 7,
            command: "quorate bench".into(),
            ..Provenance::default()
        },
    }
}
