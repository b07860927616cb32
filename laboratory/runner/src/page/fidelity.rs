//! Residuals of the simulator, as written by `quorate lab fidelity --json`.

use quorate_lab::experiments::Instrument;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Contribution to the distance of two specifications by each key whose text values differ.
const DIFFERENT: f64 = 1.0;
/// Contribution of different protocols, larger than most other differences together.
const OTHER_PROTOCOL: f64 = 8.0;
const PROTOCOL: &str = "protocol";
/// Contribution of an open loop versus a closed one: near saturation, their latencies have little in common.
const OTHER_LOOP: f64 = 8.0;
/// Key that only open loops have.
const RATE: &str = "rate";
/// Keys that hardly affect the simulator's error.
const IGNORED: &[&str] = &["seed", "duration", "warmup", "costs"];

/// Specifications that were both simulated and measured.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Fidelity {
    pub cells: Vec<Residual>,
}

/// Ratios of simulated to measured figures.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Residual {
    /// Instrument that measured it; missing in files of earlier versions, which knew only `real`.
    #[serde(default)]
    pub instrument: Option<String>,
    /// Keys of `quorate bench --spec`.
    pub spec: Map<String, Value>,
    pub throughput_ratio: Option<f64>,
    pub cpu_ratio: Option<f64>,
    pub p50_ratio: Option<f64>,
    pub p99_ratio: Option<f64>,
}

impl Fidelity {
    /// Parses the JSON of `quorate lab fidelity`; keys other than `cells` are ignored.
    ///
    /// # Errors
    /// If it is not JSON of this form.
    pub fn parse(text: &str) -> Result<Fidelity, serde_json::Error> {
        let mut fidelity: Fidelity = serde_json::from_str(text)?;
        // Residuals on hosts and in emulated networks say little about simulations of one machine.
        fidelity.cells.retain(|cell| cell.instrument.as_deref().is_none_or(|own| own == Instrument::Real.name()));
        Ok(fidelity)
    }

    /// Returns the residual of the most similar specification; `None` without specifications.
    pub fn nearest(&self, specification: &toml::Table) -> Option<&Residual> {
        let near = |residual: &&Residual| distance(&residual.spec, specification);
        self.cells.iter().min_by(|a, b| near(a).total_cmp(&near(b)))
    }
}

impl Residual {
    /// Lists simulated over real of each figure, for a tooltip.
    pub fn ratios(&self) -> String {
        let all = [
            ("throughput", self.throughput_ratio),
            ("CPU per command", self.cpu_ratio),
            ("p50", self.p50_ratio),
            ("p99", self.p99_ratio),
        ];
        let known = all.iter().filter_map(|(name, ratio)| Some(format!("{name} {:.2}", (*ratio)?)));
        known.collect::<Vec<_>>().join(", ")
    }

    /// Describes the specification.
    pub fn label(&self) -> String {
        let words = self.spec.iter().filter(|(key, _)| !IGNORED.contains(&key.as_str()));
        let words = words.map(|(key, value)| format!("{} {}", super::words::words(key), shown(value)));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Adds up the differences of all common keys. Numbers contribute the binary logarithm of their ratio.
fn distance(spec: &Map<String, Value>, specification: &toml::Table) -> f64 {
    let of_key = |(key, value): (&String, &Value)| {
        let Some(other) = specification.get(key).filter(|_| !IGNORED.contains(&key.as_str())) else { return 0.0 };
        let number = match other {
            toml::Value::Integer(number) => Some(*number as f64),
            toml::Value::Float(number) => Some(*number),
            _ => None,
        };
        match (value.as_f64(), number) {
            (Some(a), Some(b)) if a > 0.0 && b > 0.0 => (a / b).log2().abs(),
            (Some(a), Some(b)) if a == b => 0.0,
            _ if shown(value) == text(other) => 0.0,
            _ if key == PROTOCOL => OTHER_PROTOCOL,
            _ => DIFFERENT,
        }
    };
    let other_loop = spec.contains_key(RATE) != specification.contains_key(RATE);
    spec.iter().map(of_key).sum::<f64>() + if other_loop { OTHER_LOOP } else { 0.0 }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn text(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
