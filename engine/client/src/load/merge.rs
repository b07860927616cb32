//! One load on several machines: its parts, and the merged report.

use crate::load::histogram::{Counts, microseconds};
use crate::load::options::{LoadMode, LoadOptions, LoadStep};
use crate::load::recorder::LoadReport;
use crate::load::samples;
use crate::load::usage::Usage;
use crate::session::SessionCounters;
use hdrhistogram::Histogram;
use std::time::Duration;

impl LoadOptions {
    /// Splits the load over machines with these numbers of clients, which must add up to the total. In an open loop,
    /// each client has an equal part of the rate and of the limit of unanswered commands. A remainder of the limit goes
    /// to the first machines, one command each.
    pub fn split(&self, clients: &[usize]) -> Vec<LoadOptions> {
        assert_eq!(clients.iter().sum::<usize>(), self.clients, "each client has a machine");
        let limits = match self.mode {
            LoadMode::Closed { .. } => vec![0; clients.len()],
            LoadMode::Open { max_outstanding, .. } => split_limit(max_outstanding, clients),
        };
        let part = |(own, limit): (&usize, usize)| {
            let of = |rate: f64| rate * *own as f64 / self.clients as f64;
            let (mode, steps) = match self.mode {
                LoadMode::Closed { .. } => (self.mode, self.steps.clone()),
                LoadMode::Open { rate, .. } => {
                    let slower = |step: &LoadStep| LoadStep { from: of(step.from), to: of(step.to), ..*step };
                    let mode = LoadMode::Open { rate: of(rate), max_outstanding: limit };
                    (mode, self.steps.iter().map(slower).collect())
                }
            };
            LoadOptions { clients: *own, mode, steps, ..self.clone() }
        };
        clients.iter().zip(limits).map(part).collect()
    }
}

/// Splits a limit in proportion to the machines' clients. Each machine gets at least 1.
fn split_limit(limit: usize, clients: &[usize]) -> Vec<usize> {
    let all: usize = clients.iter().sum();
    let whole: Vec<usize> = clients.iter().map(|own| limit * own / all.max(1)).collect();
    let left = limit - whole.iter().sum::<usize>();
    let share = |(machine, whole): (usize, usize)| (whole + usize::from(machine < left)).max(1);
    whole.into_iter().enumerate().map(share).collect()
}

impl LoadReport {
    /// Combines the reports of loads that [began together](crate::load::LoadCore::join_others) and ran for the same
    /// time; a single report is returned unchanged. `whole` is the load that was split. The longest time without an
    /// answer to any machine cannot be derived from the reports, so the caller measures it.
    ///
    /// CPU times are added up. The busy time is the busiest machine's, because that one is the first to become a
    /// bottleneck.
    pub fn merged(reports: &[LoadReport], whole: &LoadOptions, longest_gap: Duration) -> LoadReport {
        let (first, others) = reports.split_first().expect("a load has a machine");
        let mut all = first.clone();
        if others.is_empty() {
            return all;
        }
        others.iter().for_each(|other| all.add(other));
        (all.longest_gap, all.seconds) = (longest_gap, seconds(reports));
        all.second_counts.clear();
        all.steps.iter_mut().zip(&whole.steps).for_each(|(report, step)| report.step = *step);
        let samples = reports.iter().map(|report| (report.samples.clone(), report.latency_us.len()));
        all.samples = samples::merge(samples.collect(), whole.samples);
        all
    }

    fn add(&mut self, other: &LoadReport) {
        add(&mut self.latency_us, &other.latency_us);
        for (one, other) in
            [(&mut self.schedule_lag_us, &other.schedule_lag_us), (&mut self.commit_us, &other.commit_us)]
        {
            if let (Some(one), Some(other)) = (one, other) {
                add(one, other);
            }
        }
        self.intervals.resize(self.intervals.len().max(other.intervals.len()), 0);
        self.intervals.iter_mut().zip(&other.intervals).for_each(|(one, other)| *one += other);
        for (one, other) in self.steps.iter_mut().zip(&other.steps) {
            add(&mut one.latency_us, &other.latency_us);
            one.completed += other.completed;
        }
        self.completed += other.completed;
        self.submitted += other.submitted;
        self.duplicates += other.duplicates;
        self.refused += other.refused;
        self.busy += other.busy;
        self.unanswered += other.unanswered;
        self.unsent += other.unsent;
        if let (Some(one), Some(other)) = (&mut self.replies, &other.replies) {
            one.add(other);
        }
        self.total_submitted += other.total_submitted;
        self.total_completed += other.total_completed;
        self.total_refused += other.total_refused;
        self.preloaded += other.preloaded;
        self.preload_refused += other.preload_refused;
        self.malformed += other.malformed;
        self.warning = self.warning.take().or_else(|| other.warning.clone());
        self.bundles = sum_of_counters(&self.bundles, &other.bundles);
        let Usage { cpu, busy, crypto, .. } = &mut self.usage;
        (*cpu, *busy) = (*cpu + other.usage.cpu, (*busy).max(other.usage.busy));
        *crypto += other.usage.crypto;
    }
}

fn add(one: &mut Histogram<u64>, other: &Histogram<u64>) {
    one.add(other).expect("all histograms of a load have the same bounds");
}

fn sum_of_counters(one: &SessionCounters, other: &SessionCounters) -> SessionCounters {
    SessionCounters {
        submitted: one.submitted + other.submitted,
        accepted: one.accepted + other.accepted,
        retries: one.retries + other.retries,
        refusals: one.refusals + other.refusals,
        busy: one.busy + other.busy,
        late: one.late + other.late,
        invalid: one.invalid + other.invalid,
    }
}

/// Returns median and 99th percentile of each second over all reports.
fn seconds(reports: &[LoadReport]) -> Vec<Option<(u64, u64)>> {
    let most = reports.iter().map(|report| report.second_counts.len()).max().unwrap_or(0);
    let mut all = microseconds();
    let quantiles = |second: usize| {
        all.reset();
        let kept = reports.iter().filter_map(|report| report.second_counts.get(second));
        let values: Vec<&Counts> = kept.collect();
        values.into_iter().flatten().for_each(|(value, count)| all.saturating_record_n(*value, *count));
        (!all.is_empty()).then(|| (all.value_at_quantile(0.5), all.value_at_quantile(0.99)))
    };
    (0..most).map(quantiles).collect()
}
