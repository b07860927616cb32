//! Figures of one client machine.

use hdrhistogram::Histogram;
use quorate_client::load::LoadReport;
use quorate_types::ReplicaId;

/// Figures of one client machine over the measured time.
#[derive(Clone, PartialEq, Debug)]
pub struct ClientMachine {
    /// Region of the network; `None` if it has no regions.
    pub region: Option<String>,
    /// The replica next to it, or the nearest one.
    pub home: ReplicaId,
    pub clients: usize,
    /// Commands answered in the measured time.
    pub completed: u64,
    /// Commands per second.
    pub throughput: f64,
    /// Open loop: commands due in the measured time that overloaded replicas refused, or that were not sent because the
    /// replicas had requested a pause.
    pub refused: u64,
    /// From the intended send time to f+1 equal replies.
    pub latency: LatencyMs,
    /// From the intended send time to the commit at its home.
    pub commit: LatencyMs,
}

/// Latencies in milliseconds; `None` without commands.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LatencyMs {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

impl LatencyMs {
    /// Summarizes a histogram of microseconds.
    pub fn of(microseconds: &Histogram<u64>) -> LatencyMs {
        if microseconds.is_empty() {
            return LatencyMs::default();
        }
        let at = |quantile| Some(microseconds.value_at_quantile(quantile) as f64 / 1e3);
        let (mean, max) = (microseconds.mean() / 1e3, microseconds.max() as f64 / 1e3);
        LatencyMs { mean: Some(mean), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: Some(max) }
    }
}

impl ClientMachine {
    pub(super) fn of(region: Option<String>, home: ReplicaId, clients: usize, report: &LoadReport) -> ClientMachine {
        ClientMachine {
            region,
            home,
            clients,
            completed: report.completed,
            throughput: report.throughput(),
            refused: report.busy,
            latency: LatencyMs::of(&report.latency_us),
            commit: report.commit_us.as_ref().map(LatencyMs::of).unwrap_or_default(),
        }
    }
}
