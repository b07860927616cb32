//! Result of one run of a cell.

use crate::experiments::figures::Vocabulary;
use crate::experiments::names::{Instrument, Profile};
use crate::experiments::value::Value;
use quorate_types::Fault;
use quorate_types::stages::StageCost;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum of a figure in any unit. Larger values mean that the file was damaged or edited.
const MAX_FIGURE: f64 = 1e15;

/// Result of one run of a cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// `PAPER/ID`.
    pub experiment: String,
    pub instrument: Instrument,
    pub profile: Profile,
    /// The coordinates of the cell, by axis.
    pub cell: BTreeMap<String, Value>,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// Figures by their name in the [`Vocabulary`]. Figures that could not be measured are absent.
    pub figures: BTreeMap<String, f64>,
    /// Series by their name in the [`Vocabulary`]: one value per second of the measured time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<f64>>,
    /// Sampled requests, if the run kept them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Costs of the stages of the replicas' work, if the run measured them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageCost>,
    /// `None` where noise is impossible: in virtual time and in formulas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Reason why the run failed. A run without completed commands has not failed: its throughput is 0, and it has no
    /// latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Reason why this machine or build cannot run the cell, which then has no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_measurable: Option<String>,
    /// Caveats for readers of the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub provenance: Provenance,
}

/// A single request.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Intended send time, in seconds from the start of the measured time.
    pub at_s: f64,
    pub latency_ms: f64,
}

/// Maximum coefficient of variation of the throughput per second at which a run counts as steady, in percent.
pub const MAX_STEADY_VARIATION_PERCENT: f64 = 15.0;
/// Minimum number of whole seconds from which the variation is computed.
pub const MIN_SECONDS_OF_VARIATION: usize = 3;

/// Other activity of the machine during a run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Noise {
    /// Time that the hypervisor took from this machine, in percent of all cores' time.
    pub steal_percent: f64,
    /// CPU time of other programs, in percent of all cores' time.
    pub others_percent: f64,
    /// Time during which at least one thread on the machine waited for a core, in percent of the run; `None` if the
    /// kernel does not report it. Threads of the run count, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_percent: Option<f64>,
    /// Coefficient of variation of the throughput per second of the measured time, in percent; `None` with fewer than
    /// [`MIN_SECONDS_OF_VARIATION`] whole seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_percent: Option<f64>,
}

impl Noise {
    /// Returns whether the throughput varied by at most [`MAX_STEADY_VARIATION_PERCENT`]; `None` if the run was too
    /// short to tell.
    pub fn is_steady(&self) -> Option<bool> {
        self.variation_percent.map(|percent| percent <= MAX_STEADY_VARIATION_PERCENT)
    }
}

/// Origin of a row.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Provenance {
    pub surroundings: Surroundings,
    pub kernel: String,
    /// Seed of the run.
    pub seed: u64,
    /// Command that repeats the run.
    pub command: String,
    /// Host that ran it; `None` for the machine of the laboratory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Inputs, besides the specification, that determine a result.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Surroundings {
    /// Version, commit and compilation options of the program.
    pub build: String,
    /// Processor, cores and memory; fixed text for the simulator, whose results do not depend on them.
    pub machine: String,
    /// Name or digest of the cost table; empty without one.
    pub costs: String,
    /// Digest of the other files named by the specification; empty without any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub inputs: String,
}

impl Row {
    /// Sets a figure unless it is not finite, which neither JSON nor statistics can represent.
    pub fn set(&mut self, name: &str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value: &f64| value.is_finite()) {
            self.figures.insert(name.to_owned(), value);
        }
    }

    /// Checks a row that was read from a file.
    ///
    /// # Errors
    /// If a number is impossible: not finite, absurdly large, negative without being signed, or not a valid percentage.
    pub fn validate(&self, vocabulary: &Vocabulary) -> Result<(), Fault> {
        let figures = self.figures.iter().map(|(name, value)| (name, *value));
        let series = self.series.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, *value)));
        let is_possible = |name: &str, value: f64| {
            let signed = vocabulary.figure(name).is_some_and(|figure| figure.signed);
            let least = if signed { -MAX_FIGURE } else { 0.0 };
            (least..=MAX_FIGURE).contains(&value)
        };
        if let Some((name, value)) = figures.chain(series).find(|(name, value)| !is_possible(name, *value)) {
            return Err(self.fault(&format!("`{name}` is {value}, which is impossible")));
        }
        let is_possible = |sample: &&Sample| {
            (-MAX_FIGURE..=MAX_FIGURE).contains(&sample.at_s) && (0.0..=MAX_FIGURE).contains(&sample.latency_ms)
        };
        if let Some(Sample { at_s, latency_ms }) = self.samples.iter().find(|sample| !is_possible(sample)) {
            return Err(self.fault(&format!("a sample at {at_s} s of {latency_ms} ms is impossible")));
        }
        let percents = self.noise.iter().flat_map(|noise| {
            [Some(noise.steal_percent), Some(noise.others_percent), noise.pressure_percent].into_iter().flatten()
        });
        match percents.into_iter().find(|percent| !(0.0..=100.0).contains(percent)) {
            Some(percent) => Err(self.fault(&format!("noise of {percent} % is no percentage"))),
            None => Ok(()),
        }
    }

    fn fault(&self, what: &str) -> Fault {
        let cell: Vec<String> = self.cell.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let place =
            format!("{}, {}, {}, repetition {}", self.experiment, self.instrument, cell.join(", "), self.repetition);
        Fault::new(place, what, "delete the row and run the cell again")
    }
}
