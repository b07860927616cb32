//! Measurements of a load.

use crate::distrust::Distrusted;
use crate::load::commits::Commits;
use crate::load::histogram::{AsCounts, AsOptionalCounts, Counts, counts, microseconds};
use crate::load::options::LoadStep;
use crate::load::replies::ReplyCounts;
use crate::load::samples::{Reservoir, Sample};
use crate::load::usage::Usage;
use crate::session::SessionCounters;
use hdrhistogram::Histogram;
use quorate_types::{Digest, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Length of one interval of the throughput over time.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// Result of a load.
///
/// Latencies are for commands with an intended send time in the measured window. An unanswered command counts with its
/// age at the end of the run, which is a lower bound on its latency. Throughput counts the commands answered in the
/// window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadReport {
    /// Length of the measured window, which is shorter than configured if the load was stopped.
    pub window: Duration,
    /// Time from the start of the load to the start of the window.
    pub warmup: Duration,
    #[serde(with = "AsCounts")]
    pub latency_us: Histogram<u64>,
    /// Open loop: delay from the intended to the actual send time, in microseconds, of commands due in the window.
    /// `None` in a closed loop.
    #[serde(with = "AsOptionalCounts")]
    pub schedule_lag_us: Option<Histogram<u64>>,
    /// Commands answered in each [`INTERVAL`] since the start of the load, including warm-up and drain. The first
    /// interval is shorter if the warm-up is not a multiple of the interval, so that the window begins with a whole
    /// interval.
    pub intervals: Vec<u64>,
    /// Median and 99th percentile, in microseconds, of the commands answered in each second of the window; `None`
    /// without an answer.
    pub seconds: Vec<Option<(u64, u64)>>,
    /// Latencies in microseconds of the commands answered in each second of the window, with their counts; empty unless
    /// the load is one of several.
    pub second_counts: Vec<Counts>,
    /// Latency from the intended send time to the commit at one replica, in microseconds; `None` if not recorded.
    #[serde(with = "AsOptionalCounts")]
    pub commit_us: Option<Histogram<u64>>,
    /// One entry for each step of the load.
    pub steps: Vec<StepReport>,
    /// A uniform sample of the requests behind `latency_us`, ordered by intended time.
    pub samples: Vec<Sample>,
    /// Longest time without an answer in the window, including its start and end.
    pub longest_gap: Duration,
    /// Commands executed, as reported by an answer in the window.
    pub completed: u64,
    /// Commands sent in the window.
    pub submitted: u64,
    /// Commands executed earlier, as reported by an answer in the window. They are part of `completed`.
    pub duplicates: u64,
    /// Commands refused, as reported by an answer in the window. They are not part of `completed`.
    pub refused: u64,
    /// Open loop: commands due in the window that overloaded replicas refused, or that were not sent because the
    /// replicas had requested a pause. They are not resent, and have no latency.
    pub busy: u64,
    /// Commands without an answer at the end of the load.
    pub unanswered: u64,
    /// Open loop: commands that were due but never sent, because too many were unanswered.
    pub unsent: u64,
    /// Replies to the requests sent in the window; `None` if requests are not abandoned.
    pub replies: Option<ReplyCounts>,
    /// Commands sent during the whole load, without the preload.
    pub total_submitted: u64,
    /// Commands executed during the whole load.
    pub total_completed: u64,
    /// Commands refused during the whole load.
    pub total_refused: u64,
    /// Commands of the preload.
    pub preloaded: u64,
    /// Commands of the preload that the replicas refused.
    pub preload_refused: u64,
    /// Counters of the bundles in the window.
    pub bundles: SessionCounters,
    /// Resources of the generator's thread and its connections in the window.
    pub usage: Usage,
    /// Frames from replicas that were not authentic replies, during the whole load.
    pub malformed: u64,
    /// For each replica, the reason why the first of these frames did not count.
    pub distrusted: Distrusted,
    /// Warning about the configuration key that makes the client slow, with the remedy.
    pub warning: Option<String>,
    /// Whether the load was stopped before the end of its window.
    pub stopped: bool,
}

/// Measurements of one step of a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepReport {
    pub step: LoadStep,
    /// From the start of the window.
    pub begins: Duration,
    /// From the start of the window; the last step ends with the window.
    pub ends: Duration,
    /// Latency of the commands due in this step.
    #[serde(with = "AsCounts")]
    pub latency_us: Histogram<u64>,
    /// Commands executed, as reported by an answer in this step.
    pub completed: u64,
}

impl LoadReport {
    /// Returns the commands per second in the window.
    pub fn throughput(&self) -> f64 {
        if self.window.is_zero() { 0.0 } else { self.completed as f64 / self.window.as_secs_f64() }
    }

    /// Returns the fraction of the window in which the generator's thread ran or was runnable. Close to 1, it was the
    /// bottleneck. `None` if the kernel does not report it.
    pub fn busy_fraction(&self) -> Option<f64> {
        let busy = self.usage.busy?;
        (!self.window.is_zero()).then(|| busy.as_secs_f64() / self.window.as_secs_f64())
    }

    /// Returns the CPU time of the generator per command, in microseconds; `None` without a command.
    pub fn cpu_us_per_command(&self) -> Option<f64> {
        (self.completed > 0).then(|| self.usage.cpu.as_secs_f64() * 1e6 / self.completed as f64)
    }

    /// Returns a quantile of the latency, in milliseconds; `None` without a command.
    pub fn latency_ms(&self, quantile: f64) -> Option<f64> {
        (!self.latency_us.is_empty()).then(|| self.latency_us.value_at_quantile(quantile) as f64 / 1e3)
    }
}

/// Counts of commands by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub executed: u64,
    pub duplicates: u64,
    pub refused: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.executed += other.executed;
        self.duplicates += other.duplicates;
        self.refused += other.refused;
    }

    pub fn completed(self) -> u64 {
        self.executed + self.duplicates
    }
}

/// Measurements of a running load.
pub struct Recorder {
    start: Time,
    /// Amount by which the first interval is shorter than the others.
    missing_ns: u128,
    window: (Time, Time),
    pub latency_us: Histogram<u64>,
    pub lag_us: Option<Histogram<u64>>,
    samples: Reservoir,
    /// Latencies since the last progress update.
    pub recent_us: Histogram<u64>,
    pub intervals: Vec<u64>,
    /// Latencies of commands answered in the current second of the window.
    second_us: Histogram<u64>,
    seconds: Vec<Option<(u64, u64)>>,
    /// Latencies of the earlier seconds, if they are kept.
    second_counts: Option<Vec<Counts>>,
    commits: Option<Commits>,
    steps: Vec<StepReport>,
    longest_gap: Duration,
    last_answer: Time,
    pub measured: Tally,
    pub total: Tally,
    pub submitted_in_window: u64,
    pub submitted: u64,
    /// Commands due in the window that were refused because of load.
    pub busy: u64,
}

impl Recorder {
    pub fn new(
        start: Time,
        warmup: Duration,
        duration: Duration,
        open: bool,
        steps: &[LoadStep],
        samples: usize,
    ) -> Self {
        let window = (start + warmup, start + warmup + duration);
        Recorder {
            start,
            missing_ns: warmup.as_nanos().next_multiple_of(INTERVAL.as_nanos()) - warmup.as_nanos(),
            window,
            latency_us: microseconds(),
            lag_us: open.then(microseconds),
            samples: Reservoir::new(samples),
            recent_us: microseconds(),
            intervals: Vec::new(),
            second_us: microseconds(),
            seconds: Vec::new(),
            second_counts: None,
            commits: None,
            steps: step_reports(steps, duration),
            longest_gap: Duration::ZERO,
            last_answer: window.0,
            measured: Tally::default(),
            total: Tally::default(),
            submitted_in_window: 0,
            submitted: 0,
            busy: 0,
        }
    }

    /// Sets whether latencies are kept per second, and whether commits are recorded.
    pub fn keep(&mut self, seconds: bool, commits: bool) {
        self.second_counts = seconds.then(Vec::new);
        self.commits = commits.then(Commits::default);
    }

    pub fn start(&self) -> Time {
        self.start
    }

    pub fn window(&self) -> (Time, Time) {
        self.window
    }

    fn in_window(&self, at: Time) -> bool {
        self.window.0 <= at && at < self.window.1
    }

    /// Ends the window now. It is empty if it has not started.
    pub fn cut(&mut self, now: Time) {
        self.window = (self.window.0.min(now), self.window.1.min(now));
    }

    /// Records that `count` commands due at `intended` are sent.
    #[inline]
    pub fn on_sent(&mut self, now: Time, intended: Time, count: u64) {
        self.submitted += count;
        if self.in_window(now) {
            self.submitted_in_window += count;
        }
        if self.in_window(intended)
            && let Some(lag) = self.lag_us.as_mut()
        {
            lag.saturating_record_n(now.since(intended).as_micros() as u64, count);
        }
    }

    /// Records that `count` commands due at `intended` are answered as executed.
    #[inline]
    pub fn on_executed(&mut self, now: Time, intended: Time, count: u64) {
        let waited = now.since(intended).as_nanos() as u64 / 1000;
        self.record_latency(intended, waited, count);
        self.recent_us.saturating_record_n(waited, count);
        if self.in_window(now) {
            self.close_seconds(now);
            self.second_us.saturating_record_n(waited, count);
        }
    }

    #[inline]
    fn record_latency(&mut self, intended: Time, waited_us: u64, count: u64) {
        if self.in_window(intended) {
            self.latency_us.saturating_record_n(waited_us, count);
            self.samples.offer(intended, waited_us, count);
            if let Some(step) = self.step_at(intended) {
                step.latency_us.saturating_record_n(waited_us, count);
            }
        }
    }

    /// Returns the step at a time in the window.
    fn step_at(&mut self, at: Time) -> Option<&mut StepReport> {
        let into = at.since(self.window.0);
        let number = self.steps.partition_point(|step| step.ends <= into);
        self.steps.get_mut(number)
    }

    /// Returns the steps begun before the end of the window, which must be over.
    pub fn take_steps(&mut self) -> Vec<StepReport> {
        let window = self.window.1.since(self.window.0);
        let mut steps = std::mem::take(&mut self.steps);
        steps.retain(|step| step.begins < window);
        steps.iter_mut().for_each(|step| step.ends = step.ends.min(window));
        steps
    }

    /// Returns the sampled requests.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        std::mem::replace(&mut self.samples, Reservoir::new(0)).into_samples(self.window.0)
    }

    /// Computes the quantiles of the completed seconds.
    fn close_seconds(&mut self, now: Time) {
        while (self.seconds.len() as u64) < now.since(self.window.0).as_secs() {
            let quantile = |at| self.second_us.value_at_quantile(at);
            self.seconds.push((!self.second_us.is_empty()).then(|| (quantile(0.5), quantile(0.99))));
            if let Some(kept) = self.second_counts.as_mut() {
                kept.push(counts(&self.second_us));
            }
            self.second_us.reset();
        }
    }

    /// Returns the quantiles of all whole seconds of the window, which must be over.
    pub fn take_seconds(&mut self) -> Vec<Option<(u64, u64)>> {
        self.close_seconds(self.window.1);
        std::mem::take(&mut self.seconds)
    }

    /// Returns the latencies of all whole seconds, after [`Recorder::take_seconds`].
    pub fn take_second_counts(&mut self) -> Vec<Counts> {
        self.second_counts.take().unwrap_or_default()
    }

    /// Records that `count` commands due at `intended` have no answer at the end.
    pub fn on_unanswered(&mut self, now: Time, intended: Time, count: u64) {
        self.record_latency(intended, now.since(intended).as_micros() as u64, count);
    }

    /// Records that `count` commands due at `intended` are refused because of load.
    #[inline]
    pub fn on_busy(&mut self, intended: Time, count: u64) {
        if self.in_window(intended) {
            self.busy += count;
        }
    }

    /// Records that `count` commands due at `intended` were never sent.
    pub fn on_unsent(&mut self, now: Time, intended: Time, count: u64) {
        self.on_unanswered(now, intended, count);
        if self.in_window(intended)
            && let Some(commits) = self.commits.as_mut()
        {
            commits.record(now, &[(intended, count)]);
        }
    }

    pub fn records_commits(&self) -> bool {
        self.commits.is_some()
    }

    /// Records that a bundle with commands due at these times is sent.
    pub fn on_bundle(&mut self, bundle: Digest, intended: impl Iterator<Item = Time>) {
        let (start, end) = self.window;
        let measured = intended.filter(|at| (start..end).contains(at));
        if let Some(commits) = self.commits.as_mut() {
            commits.on_sent(bundle, measured);
        }
    }

    pub fn on_committed(&mut self, at: Time, bundle: &Digest) {
        if let Some(commits) = self.commits.as_mut() {
            commits.on_committed(at, bundle);
        }
    }

    /// Records the age of bundles that are not committed at the end.
    pub fn close_commits(&mut self, now: Time) {
        if let Some(commits) = self.commits.as_mut() {
            commits.close(now);
        }
    }

    pub fn take_commits(&mut self) -> Option<Histogram<u64>> {
        self.commits.take().map(|commits| commits.latency_us)
    }

    /// Records the outcomes of a bundle.
    #[inline]
    pub fn on_answered(&mut self, now: Time, tally: Tally) {
        self.total.add(tally);
        let interval = ((now.since(self.start).as_nanos() + self.missing_ns) / INTERVAL.as_nanos()) as usize;
        if interval >= self.intervals.len() {
            self.intervals.resize(interval + 1, 0);
        }
        self.intervals[interval] += tally.completed();
        if self.in_window(now) {
            self.measured.add(tally);
            if let Some(step) = self.step_at(now) {
                step.completed += tally.completed();
            }
            if tally.completed() > 0 {
                self.longest_gap = self.longest_gap.max(now.since(self.last_answer));
                self.last_answer = now;
            }
        }
    }

    /// Returns the longest time without an answer until `now`, including the start and the end of the window.
    pub fn longest_gap(&self, now: Time) -> Duration {
        self.longest_gap.max(now.min(self.window.1).since(self.last_answer))
    }
}

fn step_reports(steps: &[LoadStep], window: Duration) -> Vec<StepReport> {
    let mut begins = Duration::ZERO;
    let reports = steps.iter().enumerate().map(|(number, step)| {
        let is_last = number + 1 == steps.len();
        let ends = if is_last { window.max(begins + step.lasts) } else { begins + step.lasts };
        let report = StepReport { step: *step, begins, ends, latency_us: microseconds(), completed: 0 };
        begins = ends;
        report
    });
    reports.collect()
}
