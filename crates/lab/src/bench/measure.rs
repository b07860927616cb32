//! Computes a result from counters.

use crate::partial::partial;
use crate::result::{
    Agreement, BenchResult, ChannelPerCommand, CpuPerCommand, CryptoPerCommand, Event, Frontier, Growth, Latency,
    LineFigures, Machine, PacketFigures, RequestFigures, RoundTripFigures, Sample, Second, Step, ThreadLoads,
    log_buckets, per, recovery_percent, stages, version,
};
use crate::spec::{BenchSpec, Pacing};
use quorate_client::load::{INTERVAL, LoadProgress, LoadReport, StepReport};
use quorate_simulator::Counts;
use quorate_types::{ReplicaId, Status};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A thread is a bottleneck if it ran or waited for a CPU for at least this share of the time.
pub(crate) const BUSY_FRACTION: f64 = 0.95;
/// Maximum delay in milliseconds of a client that keeps its schedule (open loop).
const LATE_MS: f64 = 10.0;

/// Clock of the measured time.
#[derive(Default)]
pub struct Timekeeper {
    began: Option<Instant>,
}

impl Timekeeper {
    /// Starts the clock when the load reaches the measured time.
    pub fn observe(&mut self, load: &LoadProgress) {
        if self.began.is_none() && matches!(load.stage, "measure" | "drain" | "done") {
            self.began = Some(Instant::now());
        }
    }

    /// Returns the time since the start of the measured time.
    pub fn measured(&self) -> Option<Duration> {
        self.began.map(|began| began.elapsed())
    }
}

/// Counters of a replica at one point in time.
struct Reading {
    at: Instant,
    status: Status,
}

/// First and last counters of all replicas in the measured time, and the events.
#[derive(Default)]
pub struct Readings {
    first: Vec<Option<Reading>>,
    last: Vec<Option<Reading>>,
    /// Counters of processes that ended in the measured time: a replica that restarts counts from zero.
    past: Vec<(Reading, Reading)>,
    frontier: Frontier,
    events: Vec<Event>,
    /// Proofs that any replica reported at any time; a restart may lose them.
    pub evidence: BTreeSet<String>,
    pub hearsay: BTreeSet<String>,
    closed: bool,
    /// Statuses after the load, with nothing in flight.
    pub end: Vec<Option<Status>>,
}

impl Readings {
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Ends the measured time.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Adds a reading of all replicas, `measured` after the start of the measured time. A replica that did not answer
    /// keeps its last one.
    pub fn add(&mut self, measured: Duration, statuses: Vec<Option<Status>>) {
        let at = Instant::now();
        let counts: Vec<Option<Counts>> = statuses.iter().map(|status| status.as_ref().map(Counts::of)).collect();
        self.frontier.add(if self.first.is_empty() { 0.0 } else { measured.as_secs_f64() }, &counts);
        self.evidence.extend(statuses.iter().flatten().flat_map(|status| status.evidence.iter().cloned()));
        self.hearsay.extend(statuses.iter().flatten().flat_map(|status| status.hearsay.iter().cloned()));
        let take = |status: Option<Status>| status.map(|status| Reading { at, status });
        if self.first.is_empty() {
            self.first = statuses.iter().cloned().map(take).collect();
            self.last = statuses.into_iter().map(take).collect();
            return;
        }
        for (replica, status) in statuses.into_iter().enumerate() {
            if let Some(reading) = take(status) {
                self.first[replica].get_or_insert_with(|| Reading { at, status: reading.status.clone() });
                self.last[replica] = Some(reading);
            }
        }
    }

    /// Ends the reading of a replica's process, which has restarted.
    pub fn on_restart(&mut self, replica: ReplicaId) {
        if self.first.is_empty() {
            return;
        }
        let life = (self.first[replica.index()].take(), self.last[replica.index()].take());
        if let (Some(first), Some(last)) = life {
            self.past.push((first, last));
        }
    }

    pub fn on_event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Returns the status of the replica with the highest height.
    pub fn latest(&self) -> Option<&Status> {
        self.last.iter().flatten().map(|reading| &reading.status).max_by_key(|status| status.height)
    }

    fn growth(&self) -> Growth<'_> {
        Growth::of(self.lives().map(|(first, last)| (&first.status, &last.status)))
    }

    fn lives(&self) -> impl Iterator<Item = (&Reading, &Reading)> {
        let now = self.first.iter().zip(&self.last).filter_map(|(first, last)| Some((first.as_ref()?, last.as_ref()?)));
        self.past.iter().map(|(first, last)| (first, last)).chain(now)
    }

    /// Returns the share of the time in which the busiest replica ran or waited for a CPU.
    fn busiest(&self) -> f64 {
        let busy = self.lives().map(|(first, last)| {
            let wall = last.at.duration_since(first.at).as_nanos() as f64;
            last.status.busy_ns.saturating_sub(first.status.busy_ns) as f64 / wall.max(1.0)
        });
        busy.fold(0.0, f64::max)
    }

    fn agreement(&self) -> Agreement {
        if self.end.iter().flatten().count() < self.end.len().min(2) {
            return Agreement::Unknown("fewer than two replicas reported their history".into());
        }
        Agreement::of(&self.end)
    }
}

/// Combines the counters of clients and replicas.
pub fn result(
    spec: &BenchSpec,
    report: &LoadReport,
    mut readings: Readings,
    mut warnings: Vec<String>,
    peak_rss_kb: u64,
) -> BenchResult {
    let events = std::mem::take(&mut readings.events);
    let mut proofs = std::mem::take(&mut readings.evidence);
    proofs.extend(evidence(readings.end.iter().flatten()));
    let mut rumours = std::mem::take(&mut readings.hearsay);
    rumours.extend(hearsay(readings.end.iter().flatten()));
    let growth = readings.growth();
    let ordered = growth.most(|status| status.committed_commands);
    let blocks = growth.most(|status| status.committed_blocks);
    let replicas = per(growth.sum(|status| status.cpu_ns) as f64 / 1e3, ordered);
    let clients = report.cpu_us_per_command();
    let sent_by_replicas = per(growth.sum(|status| status.bytes_sent) as f64, ordered);
    let sent_by_clients = per(report.usage.transport.bytes_sent as f64, report.completed);
    let allocated = |of: fn(&Status) -> u64| per(growth.sum(of) as f64, ordered).filter(|count| *count > 0.0);
    let add = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let channel = ChannelPerCommand::sampled(&growth, ordered, &report.usage.crypto, report.completed);
    let client_bound = is_client_bound(spec, report, &readings, &mut warnings);
    let rss_of_replicas = readings.end.iter().flatten().map(|status| status.peak_rss_kb).max().unwrap_or(0);
    note_unusual(report, &readings, &mut warnings);
    let (stages, stage_clock) = stages(&growth).unzip();
    BenchResult {
        spec: spec.clone(),
        throughput_ops: report.throughput(),
        latency_ms: Latency::of(&report.latency_us),
        latency_within_fences_ms: Latency::within_fences(&report.latency_us),
        committed_commands: report.completed,
        executed_commands: ordered,
        refused_commands: report.busy,
        committed_blocks: blocks,
        views: growth.views(),
        view_timeouts: growth.most(|status| status.view_timeouts),
        longest_gap_ms: (report.completed > 0).then_some(report.longest_gap.as_secs_f64() * 1e3),
        recovery_percent: recovery_percent(spec, measured_intervals(report)),
        cpu_us_per_command: CpuPerCommand { total: add(replicas, clients), replicas, clients },
        crypto_us_per_command: CryptoPerCommand::sampled(&growth, ordered, &report.usage.crypto, report.completed),
        channel_us_per_command: Some(channel),
        threads: ThreadLoads::of(&growth, report.window.as_nanos() as f64, ordered),
        stages: stages.unwrap_or_default(),
        stage_clock,
        bytes_per_command: add(sent_by_replicas, sent_by_clients),
        line: LineFigures::of(spec, &growth, ordered, report.throughput()),
        packets: PacketFigures::of(&growth),
        smoothed_rtt_ms: RoundTripFigures::of(&growth),
        verifications_per_block: per(growth.sum(|status| status.verifications) as f64, blocks),
        key_additions_per_certificate: growth.key_additions_per_certificate(spec.scheme),
        messages_per_block: per(growth.sum(|status| status.messages_sent) as f64, blocks),
        bytes_per_block: per(growth.sum(|status| status.bytes_sent) as f64, blocks),
        certificate_bytes: spec.certificate_bytes(),
        peak_rss_mb: peak_rss_kb.max(rss_of_replicas) as f64 * 1024.0 / 1e6,
        allocations_per_command: allocated(|status| status.allocations),
        allocated_bytes_per_command: allocated(|status| status.allocated_bytes),
        client_bound,
        agreement: Agreement::in_run(spec, || readings.agreement()),
        requests: RequestFigures::of(spec, report),
        timeline: timeline(report, &readings.frontier),
        steps: steps(spec, report),
        samples: Sample::all(report),
        search: None,
        latency_histogram: log_buckets(&report.latency_us),
        events,
        evidence: proofs.into_iter().collect(),
        hearsay: rumours.into_iter().collect(),
        warnings,
        partial: partial(|| format!("after {:.1} s of {}", report.window.as_secs_f64(), spec.duration)),
        machine: Machine::here(),
        command: spec.command_line(),
        loaded: None,
        emulation: None,
        version: version(),
    }
}

/// Returns the proofs of all replicas, each once.
pub(crate) fn evidence<'a>(statuses: impl Iterator<Item = &'a Status>) -> Vec<String> {
    each_once(statuses.flat_map(|status| &status.evidence))
}

/// Returns the contradictions that all replicas report without proof, each once.
pub(crate) fn hearsay<'a>(statuses: impl Iterator<Item = &'a Status>) -> Vec<String> {
    each_once(statuses.flat_map(|status| &status.hearsay))
}

fn each_once<'a>(lines: impl Iterator<Item = &'a String>) -> Vec<String> {
    lines.cloned().collect::<BTreeSet<String>>().into_iter().collect()
}

/// Returns whether the clients were the bottleneck: their thread was always busy, but no replica was. Warns if they did
/// not keep their schedule.
fn is_client_bound(spec: &BenchSpec, report: &LoadReport, readings: &Readings, warnings: &mut Vec<String>) -> bool {
    let is_idle = readings.busiest() < BUSY_FRACTION;
    let busy = report.busy_fraction().is_some_and(|busy| busy >= BUSY_FRACTION);
    let late = report.schedule_lag_us.as_ref().is_some_and(|lag| lag.value_at_quantile(0.99) as f64 / 1e3 > LATE_MS);
    if late && matches!(spec.pacing(), Pacing::Open { .. }) {
        warnings.push(
            "commands were sent later than the rate requires; their latency counts from the time they were due".into(),
        );
    }
    busy && is_idle
}

fn note_unusual(report: &LoadReport, readings: &Readings, warnings: &mut Vec<String>) {
    let growth = readings.growth();
    let not_queued = growth.most(|status| status.dropped.get("not-queued").copied().unwrap_or(0));
    let others = [
        (report.malformed, &*format!("frames from replicas did not count: {}", report.distrusted)),
        (not_queued, "frames were dropped because a queue was full or a connection missing"),
    ];
    note_counts(warnings, Some(report), &others);
}

/// Adds a warning for each count above 0: those of the load, and `others`.
pub(crate) fn note_counts(warnings: &mut Vec<String>, load: Option<&LoadReport>, others: &[(u64, &str)]) {
    let count = |of: fn(&LoadReport) -> u64| load.map_or(0, of);
    let of_load = [
        (count(|load| load.unanswered), "commands were unanswered when the run ended"),
        (count(|load| load.unsent), "commands were due but never sent, because too many were outstanding"),
        (count(|load| load.total_refused), "commands were refused"),
    ];
    let seen = of_load.iter().chain(others).filter(|(count, _)| *count > 0);
    warnings.extend(seen.map(|(count, what)| format!("{count} {what}")));
}

/// Returns the commands completed in each whole [`INTERVAL`] of the measured time.
pub(crate) fn measured_intervals(report: &LoadReport) -> &[u64] {
    let from = report.warmup.as_nanos().div_ceil(INTERVAL.as_nanos()) as usize;
    let count = (report.window.as_millis() / INTERVAL.as_millis()) as usize;
    let measured = report.intervals.get(from..).unwrap_or_default();
    &measured[..count.min(measured.len())]
}

/// Returns the whole seconds of the measured time.
pub(crate) fn timeline(report: &LoadReport, frontier: &Frontier) -> Vec<Second> {
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
pub(crate) fn steps(spec: &BenchSpec, report: &LoadReport) -> Vec<Step> {
    let is_open = matches!(spec.pacing(), Pacing::Open { .. });
    let figures = |step: &StepReport| {
        let lasts_s = (step.ends - step.begins).as_secs_f64();
        // After a ramp its last rate holds.
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
