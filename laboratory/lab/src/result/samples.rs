//! Sampled requests of a run.

use super::US_PER_MS;
use quorate_client::load::LoadReport;
use serde::{Deserialize, Serialize};

/// One request of a run that records single requests.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Intended send time, from the start of the measured time.
    pub at_s: f64,
    /// Latency; without an answer, the request's age at the end of the run.
    pub latency_ms: f64,
}

impl Sample {
    /// Returns the sampled requests of a load.
    pub fn all(report: &LoadReport) -> Vec<Sample> {
        let sample = |own: &quorate_client::load::Sample| Sample {
            at_s: own.intended.as_secs_f64(),
            latency_ms: own.latency_us as f64 / US_PER_MS,
        };
        report.samples.iter().map(sample).collect()
    }
}
