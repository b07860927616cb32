//! What a load generator saw.

use crate::load::usage::Usage;
use crate::session::SessionCounters;
use hdrhistogram::Histogram;
use quorate_types::Time;
use std::time::Duration;

/// The width of one interval of the throughput over time.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// Longest latency that is told apart from longer ones: one hour, in microseconds.
pub const MAX_LATENCY_US: u64 = 3_600_000_000;
/// Significant decimal digits of a recorded latency.
pub const LATENCY_DIGITS: u8 = 3;

/// A histogram of microseconds.
pub fn microseconds() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_US, LATENCY_DIGITS).expect("the bounds are in order")
}

/// What a load generator measured.
///
/// A command's latency counts where the time at which it was meant to be sent is in the measured window; one that was never
/// answered counts with its age at the end of the run, which is the least that its latency can be. Throughput counts the commands
/// that were answered in the window.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// The measured window: shorter than asked for if the load was stopped.
    pub window: Duration,
    /// From the start of the load to the start of the window.
    pub warmup: Duration,
    /// Latencies in microseconds.
    pub latency_us: Histogram<u64>,
    /// How late commands were sent in open loop, in microseconds after their time, for those due in the window. In closed loop none.
    pub schedule_lag_us: Option<Histogram<u64>>,
    /// Commands answered in each [`INTERVAL`] since the start of the load, warm-up and drain included.
    pub intervals: Vec<u64>,
    /// Median and 99th percentile, in microseconds, of the commands answered in each second of the window; none without an answer.
    pub seconds: Vec<Option<(u64, u64)>>,
    /// The longest time in the window without an answer, between its start, the answers and its end.
    pub longest_gap: Duration,
    /// Commands answered as executed in the window.
    pub completed: u64,
    /// Commands sent in the window.
    pub submitted: u64,
    /// Commands answered in the window as executed before; they are part of `completed`.
    pub duplicates: u64,
    /// Commands answered in the window as refused; they are no part of `completed`.
    pub refused: u64,
    /// Commands sent during the whole load that had no answer at its end.
    pub unanswered: u64,
    /// Commands that were due in open loop and never sent, because too many waited for an answer.
    pub unsent: u64,
    /// Commands sent during the whole load, without those before it that the workload needed.
    pub total_submitted: u64,
    /// Commands answered as executed during the whole load.
    pub total_completed: u64,
    /// Commands answered as refused during the whole load.
    pub total_refused: u64,
    /// Commands executed before the load because the workload needed them.
    pub preloaded: u64,
    /// Those of them that the replicas refused.
    pub preload_refused: u64,
    /// Bundles in the window: sent, answered, sent again, refused.
    pub bundles: SessionCounters,
    /// What the generator's thread and connections used in the window.
    pub usage: Usage,
    /// Frames of replicas that were no replies, during the whole load.
    pub malformed: u64,
    /// The first such frame's error.
    pub first_malformed: Option<String>,
    /// Whether the load was stopped before its time.
    pub stopped: bool,
}

impl LoadReport {
    /// Commands per second in the window.
    pub fn throughput(&self) -> f64 {
        if self.window.is_zero() { 0.0 } else { self.completed as f64 / self.window.as_secs_f64() }
    }

    /// The part of the window in which the generator's thread ran or waited for a processor: near 1 when it was the limit. None
    /// where the kernel does not tell.
    pub fn busy_fraction(&self) -> Option<f64> {
        let busy = self.usage.busy?;
        (!self.window.is_zero()).then(|| busy.as_secs_f64() / self.window.as_secs_f64())
    }

    /// CPU time of the generator per command, in microseconds; none without a command.
    pub fn cpu_us_per_command(&self) -> Option<f64> {
        (self.completed > 0).then(|| self.usage.cpu.as_secs_f64() * 1e6 / self.completed as f64)
    }

    /// A quantile of the latency, in milliseconds; none without a command.
    pub fn latency_ms(&self, quantile: f64) -> Option<f64> {
        (!self.latency_us.is_empty()).then(|| self.latency_us.value_at_quantile(quantile) as f64 / 1e3)
    }
}

/// What became of a bundle's commands.
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

/// Records a load that has begun.
pub struct Recorder {
    start: Time,
    window: (Time, Time),
    pub latency_us: Histogram<u64>,
    pub lag_us: Option<Histogram<u64>>,
    /// Latencies since the progress was last told.
    pub recent_us: Histogram<u64>,
    pub intervals: Vec<u64>,
    /// Latencies of commands answered in the current second of the window.
    second_us: Histogram<u64>,
    seconds: Vec<Option<(u64, u64)>>,
    longest_gap: Duration,
    last_answer: Time,
    pub measured: Tally,
    pub total: Tally,
    pub submitted_in_window: u64,
    pub submitted: u64,
}

impl Recorder {
    pub fn new(start: Time, warmup: Duration, duration: Duration, open: bool) -> Self {
        let window = (start + warmup, start + warmup + duration);
        Recorder {
            start,
            window,
            latency_us: microseconds(),
            lag_us: open.then(microseconds),
            recent_us: microseconds(),
            intervals: Vec::new(),
            second_us: microseconds(),
            seconds: Vec::new(),
            longest_gap: Duration::ZERO,
            last_answer: window.0,
            measured: Tally::default(),
            total: Tally::default(),
            submitted_in_window: 0,
            submitted: 0,
        }
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

    /// The load is stopped: the window ends now, and is empty if it has not begun.
    pub fn cut(&mut self, now: Time) {
        self.window = (self.window.0.min(now), self.window.1.min(now));
    }

    /// `count` commands that were meant to be sent at `intended` are sent.
    #[inline]
    pub fn sent(&mut self, now: Time, intended: Time, count: u64) {
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

    /// `count` commands that were meant to be sent at `intended` are answered as executed.
    #[inline]
    pub fn latency(&mut self, now: Time, intended: Time, count: u64) {
        let waited = now.since(intended).as_nanos() as u64 / 1000;
        if self.in_window(intended) {
            self.latency_us.saturating_record_n(waited, count);
        }
        self.recent_us.saturating_record_n(waited, count);
        if self.in_window(now) {
            self.close_seconds(now);
            self.second_us.saturating_record_n(waited, count);
        }
    }

    /// Settles the seconds of the window that are over.
    fn close_seconds(&mut self, now: Time) {
        while (self.seconds.len() as u64) < now.since(self.window.0).as_secs() {
            let quantile = |at| self.second_us.value_at_quantile(at);
            self.seconds.push((!self.second_us.is_empty()).then(|| (quantile(0.5), quantile(0.99))));
            self.second_us.reset();
        }
    }

    /// The whole seconds of the window, which is over.
    pub fn seconds(&mut self) -> Vec<Option<(u64, u64)>> {
        self.close_seconds(self.window.1);
        std::mem::take(&mut self.seconds)
    }

    /// `count` commands that were meant to be sent at `intended` will never be answered.
    pub fn lost(&mut self, now: Time, intended: Time, count: u64) {
        if self.in_window(intended) {
            self.latency_us.saturating_record_n(now.since(intended).as_micros() as u64, count);
        }
    }

    /// A bundle is answered.
    #[inline]
    pub fn answered(&mut self, now: Time, tally: Tally) {
        self.total.add(tally);
        let interval = (now.since(self.start).as_nanos() / INTERVAL.as_nanos()) as usize;
        if interval >= self.intervals.len() {
            self.intervals.resize(interval + 1, 0);
        }
        self.intervals[interval] += tally.completed();
        if self.in_window(now) {
            self.measured.add(tally);
            if tally.completed() > 0 {
                self.longest_gap = self.longest_gap.max(now.since(self.last_answer));
                self.last_answer = now;
            }
        }
    }

    /// The longest time without an answer until `now`, the start and the end of the window included.
    pub fn longest_gap(&self, now: Time) -> Duration {
        self.longest_gap.max(now.min(self.window.1).since(self.last_answer))
    }
}
