//! From counters to a result.

use crate::partial::partial;
use crate::result::{
    Agreement, BenchResult, CpuPerCommand, Difference, Event, Growth, Latency, Machine, Second, log_buckets, per,
    version,
};
use crate::spec::{BenchSpec, Pacing};
use quorate_applications::compare_histories;
use quorate_client::load::{INTERVAL, LoadProgress, LoadReport};
use quorate_types::{Height, ReplicaId, Status};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A thread that ran or waited for a processor for this part of the time was the limit, or one of them.
const BUSY_FRACTION: f64 = 0.95;
/// Open loop: a client whose commands are later than this, in milliseconds, does not keep its schedule.
const LATE_MS: f64 = 10.0;

/// Knows when the measured time began.
#[derive(Default)]
pub struct Timekeeper {
    began: Option<Instant>,
}

impl Timekeeper {
    /// Looks at the load.
    pub fn observe(&mut self, load: &LoadProgress) {
        if self.began.is_none() && matches!(load.stage, "measure" | "drain" | "done") {
            self.began = Some(Instant::now());
        }
    }

    /// Since the measured time began.
    pub fn measured(&self) -> Option<Duration> {
        self.began.map(|began| began.elapsed())
    }
}

/// A replica's counters at a time.
struct Reading {
    at: Instant,
    status: Status,
}

/// Counters of all replicas, first and last in the measured time, and what happened.
#[derive(Default)]
pub struct Readings {
    first: Vec<Option<Reading>>,
    last: Vec<Option<Reading>>,
    /// The same of lives that ended in the measured time: who is started again counts from zero.
    past: Vec<(Reading, Reading)>,
    events: Vec<Event>,
    /// What replicas could prove at any time: who is started again has lost its proofs.
    pub evidence: BTreeSet<String>,
    closed: bool,
    /// After the load, when nothing is in flight.
    pub end: Vec<Option<Status>>,
}

impl Readings {
    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Whether the measured time is over.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The measured time is over.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Takes a reading of all replicas; those that did not answer keep their last one.
    pub fn add(&mut self, statuses: Vec<Option<Status>>) {
        let at = Instant::now();
        self.evidence.extend(statuses.iter().flatten().flat_map(|status| status.evidence.iter().cloned()));
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

    /// A replica was started again.
    pub fn restarted(&mut self, replica: ReplicaId) {
        if self.first.is_empty() {
            return;
        }
        let life = (self.first[replica.index()].take(), self.last[replica.index()].take());
        if let (Some(first), Some(last)) = life {
            self.past.push((first, last));
        }
    }

    /// Something happened.
    pub fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// The furthest replica.
    pub fn latest(&self) -> Option<&Status> {
        self.last.iter().flatten().map(|reading| &reading.status).max_by_key(|status| status.height)
    }

    /// By how much the counters grew.
    fn growth(&self) -> Growth<'_> {
        Growth::of(self.lives().map(|(first, last)| (&first.status, &last.status)))
    }

    fn lives(&self) -> impl Iterator<Item = (&Reading, &Reading)> {
        let now = self.first.iter().zip(&self.last).filter_map(|(first, last)| Some((first.as_ref()?, last.as_ref()?)));
        self.past.iter().map(|(first, last)| (first, last)).chain(now)
    }

    /// The part of the time in which the busiest replica ran or waited for a processor.
    fn busiest(&self) -> f64 {
        let busy = self.lives().map(|(first, last)| {
            let wall = last.at.duration_since(first.at).as_nanos() as f64;
            last.status.busy_ns.saturating_sub(first.status.busy_ns) as f64 / wall.max(1.0)
        });
        busy.fold(0.0, f64::max)
    }

    fn agreement(&self) -> Agreement {
        let histories: Vec<_> =
            self.end.iter().flatten().map(|status| (status.replica, status.history.clone())).collect();
        if histories.len() < self.end.len().min(2) {
            return Agreement::Unknown("fewer than two replicas reported their history".into());
        }
        match compare_histories(&histories) {
            Ok(Height(0)) => Agreement::Unknown("the replicas' histories have no height in common".into()),
            Ok(_) => Agreement::Agreed,
            Err(divergence) => {
                let side = |at: usize| &divergence.sides[at];
                Agreement::Differs(Difference {
                    height: divergence.height.0,
                    replicas: [side(0).1[0].0, side(1).1[0].0],
                    blocks: [side(0).0.to_hex(), side(1).0.to_hex()],
                })
            }
        }
    }
}

/// Puts the client's and the replicas' counters together.
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
    let growth = readings.growth();
    let ordered = growth.most(|status| status.committed_commands);
    let blocks = growth.most(|status| status.committed_blocks);
    let replicas = per(growth.sum(|status| status.cpu_ns) as f64 / 1e3, ordered);
    let clients = report.cpu_us_per_command();
    let sent_by_replicas = per(growth.sum(|status| status.bytes_sent) as f64, ordered);
    let sent_by_clients = per(report.usage.transport.bytes_sent as f64, report.completed);
    let add = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let client_bound = is_client_bound(spec, report, &readings, &mut warnings);
    let rss_of_replicas = readings.end.iter().flatten().map(|status| status.peak_rss_kb).max().unwrap_or(0);
    note_the_unusual(report, &readings, &mut warnings);
    BenchResult {
        spec: spec.clone(),
        throughput_ops: report.throughput(),
        latency_ms: Latency::of(&report.latency_us),
        committed_commands: report.completed,
        committed_blocks: blocks,
        views: growth.views(),
        view_timeouts: growth.most(|status| status.view_timeouts),
        longest_gap_ms: (report.completed > 0).then_some(report.longest_gap.as_secs_f64() * 1e3),
        cpu_us_per_command: CpuPerCommand { total: add(replicas, clients), replicas, clients },
        bytes_per_command: add(sent_by_replicas, sent_by_clients),
        verifications_per_block: per(growth.sum(|status| status.verifications) as f64, blocks),
        messages_per_block: per(growth.sum(|status| status.messages_sent) as f64, blocks),
        bytes_per_block: per(growth.sum(|status| status.bytes_sent) as f64, blocks),
        peak_rss_mb: peak_rss_kb.max(rss_of_replicas) as f64 * 1024.0 / 1e6,
        client_bound,
        agreement: readings.agreement(),
        timeline: timeline(report),
        latency_histogram: log_buckets(&report.latency_us),
        events,
        evidence: proofs.into_iter().collect(),
        warnings,
        partial: partial(|| format!("after {:.1} s of {}", report.window.as_secs_f64(), spec.duration)),
        machine: Machine::here(),
        command: spec.command_line(),
        loaded: None,
        version: version(),
    }
}

/// What the replicas can prove, each once.
pub(crate) fn evidence<'a>(statuses: impl Iterator<Item = &'a Status>) -> Vec<String> {
    let mut evidence: Vec<String> = statuses.flat_map(|status| status.evidence.iter().cloned()).collect();
    evidence.sort();
    evidence.dedup();
    evidence
}

/// The clients were the limit if their thread had no rest while every replica's had, or if they could not keep their schedule
/// although the replicas had time.
fn is_client_bound(spec: &BenchSpec, report: &LoadReport, readings: &Readings, warnings: &mut Vec<String>) -> bool {
    let rested = readings.busiest() < BUSY_FRACTION;
    let busy = report.busy_fraction().is_some_and(|busy| busy >= BUSY_FRACTION);
    let late = report.schedule_lag_us.as_ref().is_some_and(|lag| lag.value_at_quantile(0.99) as f64 / 1e3 > LATE_MS);
    if late && matches!(spec.pacing(), Pacing::Open { .. }) {
        warnings.push(
            "commands were sent later than the rate asked for; their latency counts from when they were due".into(),
        );
    }
    busy && rested
}

fn note_the_unusual(report: &LoadReport, readings: &Readings, warnings: &mut Vec<String>) {
    let mut note = |count: u64, what: &str| {
        if count > 0 {
            warnings.push(format!("{count} {what}"));
        }
    };
    note(report.unanswered, "commands had no answer when the run ended");
    note(report.unsent, "commands were due and never sent, because too many waited for an answer");
    note(report.total_refused, "commands were refused");
    note(report.malformed, "frames from replicas were no replies");
    note(
        readings.growth().most(|status| status.dropped.get("not-queued").copied().unwrap_or(0)),
        "frames found a full queue or no connection",
    );
}

/// Whole seconds of the measured time.
pub(crate) fn timeline(report: &LoadReport) -> Vec<Second> {
    let per_second = (1000 / INTERVAL.as_millis()) as usize;
    let skip = (report.warmup.as_millis() / INTERVAL.as_millis()) as usize;
    let take = (report.window.as_millis() / INTERVAL.as_millis()) as usize;
    let measured: Vec<u64> = report.intervals.iter().copied().skip(skip).take(take).collect();
    let seconds = measured.chunks(per_second).filter(|chunk| chunk.len() == per_second).enumerate();
    let row = |(second, chunk): (usize, &[u64])| {
        let latencies = report.seconds.get(second).copied().flatten();
        let ms = |us: u64| us as f64 / 1e3;
        Second {
            second: second as u32,
            ops: chunk.iter().sum(),
            p50_ms: latencies.map(|(median, _)| ms(median)),
            p99_ms: latencies.map(|(_, p99)| ms(p99)),
        }
    };
    seconds.map(row).collect()
}
