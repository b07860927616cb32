//! Measurements of a run, from which its result is computed: the same type for real and simulated replicas.

use super::{
    Agreement, ChannelPerCommand, CpuPerCommand, CryptoPerCommand, Event, Frontier, Growth, Latency, LineFigures,
    Second, Step, per,
};
use crate::spec::{BenchSpec, Pacing};
use quorate_client::load::{INTERVAL, LoadReport, StepReport};
use quorate_network::channels::Carriage;
use quorate_types::Status;

/// Measurements of a run.
pub(crate) struct Measured<'a> {
    pub spec: &'a BenchSpec,
    /// `None` if the run ended before the measured time.
    pub load: Option<&'a LoadReport>,
    /// Counters of the replicas over the measured time.
    pub growth: Growth<'a>,
    pub frontier: &'a Frontier,
    pub agreement: Agreement,
    pub own: OfHost,
}

/// Measurements taken differently by each host.
#[derive(Default)]
pub(crate) struct OfHost {
    pub is_simulated: bool,
    pub crypto: CryptoPerCommand,
    pub channel: Option<ChannelPerCommand>,
    /// Bytes that clients sent per completed command.
    pub sent_by_clients: Option<f64>,
    pub peak_rss_mb: f64,
    pub client_bound: bool,
    pub events: Vec<Event>,
    pub evidence: Vec<String>,
    pub hearsay: Vec<String>,
    pub warnings: Vec<String>,
    pub partial: Option<String>,
}

impl Measured<'_> {
    /// Returns the number of commands executed by the replica that executed the most.
    pub fn executed(&self) -> u64 {
        self.growth.most(|status| status.committed_commands)
    }

    pub fn blocks(&self) -> u64 {
        self.growth.most(|status| status.committed_blocks)
    }

    /// Returns the growth of a counter over all replicas, divided by the executed commands.
    pub fn per_command(&self, counter: fn(&Status) -> u64) -> Option<f64> {
        per(self.growth.sum(counter) as f64, self.executed())
    }

    /// Returns the growth of a counter over all replicas, divided by the committed blocks.
    pub fn per_block(&self, counter: fn(&Status) -> u64) -> Option<f64> {
        per(self.growth.sum(counter) as f64, self.blocks())
    }

    pub fn throughput(&self) -> f64 {
        self.load.map_or(0.0, LoadReport::throughput)
    }

    pub fn window_ns(&self) -> f64 {
        self.load.map_or(1.0, |load| load.window.as_nanos() as f64)
    }

    pub fn longest_gap_ms(&self) -> Option<f64> {
        self.load.filter(|load| load.completed > 0).map(|load| load.longest_gap.as_secs_f64() * 1e3)
    }

    pub fn cpu(&self) -> CpuPerCommand {
        let replicas = self.per_command(|status| status.cpu_ns).map(|ns| ns / 1e3);
        let clients = self.load.and_then(LoadReport::cpu_us_per_command);
        CpuPerCommand { total: replicas.zip(clients).map(|(a, b)| a + b), replicas, clients }
    }

    /// Returns the figures of the leader's link. Simulated packet transports do not count packets, so they have none.
    pub fn line(&self) -> Option<LineFigures> {
        let is_counted = !self.own.is_simulated || self.spec.node.transport.profile().carriage == Carriage::Stream;
        LineFigures::of(self.spec, &self.growth, self.executed(), self.throughput()).filter(|_| is_counted)
    }
}

/// Returns the commands completed in each whole [`INTERVAL`] of the measured time.
pub(super) fn measured_intervals(report: &LoadReport) -> &[u64] {
    let from = report.warmup.as_nanos().div_ceil(INTERVAL.as_nanos()) as usize;
    let count = (report.window.as_millis() / INTERVAL.as_millis()) as usize;
    let measured = report.intervals.get(from..).unwrap_or_default();
    &measured[..count.min(measured.len())]
}

/// Returns the whole seconds of the measured time.
pub(super) fn timeline(report: &LoadReport, frontier: &Frontier) -> Vec<Second> {
    let per_second = (1000 / INTERVAL.as_millis()) as usize;
    let measured = measured_intervals(report);
    let progress = frontier.seconds(measured.len() / per_second);
    let seconds = measured.chunks(per_second).filter(|chunk| chunk.len() == per_second).enumerate();
    let row = |(second, chunk): (usize, &[u64])| {
        let latencies = report.seconds.get(second).copied().flatten();
        let ms = |us: u64| us as f64 / 1e3;
        Second {
            second: second as u32,
            ops: chunk.iter().sum(),
            executed_commands: progress[second].map(|progress| progress.executed_commands),
            views: progress[second].map(|progress| progress.views),
            view_timeouts: progress[second].map(|progress| progress.view_timeouts),
            p50_ms: latencies.map(|(median, _)| ms(median)),
            p99_ms: latencies.map(|(_, p99)| ms(p99)),
        }
    };
    seconds.map(row).collect()
}

/// Returns the figures of each step of a load that changes.
pub(super) fn steps(spec: &BenchSpec, report: &LoadReport) -> Vec<Step> {
    let is_open = matches!(spec.pacing(), Pacing::Open { .. });
    let figures = |step: &StepReport| {
        let lasts_s = (step.ends - step.begins).as_secs_f64();
        // The last rate of a ramp holds until the end.
        let changing_s = step.step.lasts.as_secs_f64().min(lasts_s);
        let reached = step.step.from + (step.step.to - step.step.from) * changing_s / step.step.lasts.as_secs_f64();
        let due = (step.step.from + reached) / 2.0 * changing_s + step.step.to * (lasts_s - changing_s);
        let latency = Latency::of(&step.latency_us);
        Step {
            from_s: step.begins.as_secs_f64(),
            to_s: step.ends.as_secs_f64(),
            rate: is_open.then(|| due / lasts_s),
            outstanding: (!is_open).then_some(step.step.from as u64),
            throughput_ops: step.completed as f64 / lasts_s,
            p50_ms: latency.p50,
            p99_ms: latency.p99,
        }
    };
    report.steps.iter().map(figures).collect()
}
