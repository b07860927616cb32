//! Computes a result from counters.

use crate::partial::partial;
use crate::result::{
    Agreement, BUSY_FRACTION, BenchResult, ChannelPerCommand, CryptoPerCommand, Event, Frontier, Growth, Measured,
    OfHost, evidence, hearsay, note_counts, per,
};
use crate::spec::{BenchSpec, Pacing};
use quorate_client::load::{LoadProgress, LoadReport};
use quorate_simulator::Counts;
use quorate_types::{ReplicaId, Status};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Maximum delay of an open-loop client that counts as on schedule, in milliseconds.
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
    /// Counters of processes that ended in the measured time, since a restarted replica counts from zero.
    past: Vec<(Reading, Reading)>,
    frontier: Frontier,
    events: Vec<Event>,
    /// Proofs of misbehaviour reported by any replica at any time; a restart may lose them.
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
    /// keeps its previous reading.
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

    /// Ends the reading of a replica's process after a restart.
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
    let client_bound = is_client_bound(spec, report, &readings, &mut warnings);
    note_unusual(report, &readings, &mut warnings);
    let growth = readings.growth();
    let (executed, usage) = (growth.most(|status| status.committed_commands), &report.usage);
    let rss_of_replicas = readings.end.iter().flatten().map(|status| status.peak_rss_kb).max().unwrap_or(0);
    let own = OfHost {
        is_simulated: false,
        crypto: CryptoPerCommand::sampled(&growth, executed, &usage.crypto, report.completed),
        channel: Some(ChannelPerCommand::sampled(&growth, executed, &usage.crypto, report.completed)),
        sent_by_clients: per(usage.transport.bytes_sent as f64, report.completed),
        peak_rss_mb: peak_rss_kb.max(rss_of_replicas) as f64 * 1024.0 / 1e6,
        client_bound,
        events,
        evidence: proofs.into_iter().collect(),
        hearsay: rumours.into_iter().collect(),
        warnings,
        partial: partial(|| format!("after {:.1} s of {}", report.window.as_secs_f64(), spec.duration)),
    };
    let agreement = Agreement::in_run(spec, || readings.agreement());
    BenchResult::of(&Measured { spec, load: Some(report), growth, frontier: &readings.frontier, agreement, own })
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
    warnings.extend(report.warning.clone());
}
