//! Durations of a journal's latest writes.

use quorate_types::DurationHistogram;
use quorate_types::histogram::BOUNDS_US;
use quorate_types::status::WriteTimes;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// Number of writes whose durations are kept.
const KEPT_WRITES: usize = 1024;

/// Durations of the latest writes, recorded by one thread and readable by any.
pub(crate) struct Times {
    began: Instant,
    /// Durations of the latest writes in microseconds, as a ring indexed by the write's number.
    latest_us: Box<[AtomicU32]>,
    writes: AtomicU64,
    /// Number of all writes by [bucket](DurationHistogram), and the sum of their durations in microseconds.
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
    /// Start of the write in progress, in microseconds after `began`, plus one; 0 if there is none.
    under_way: AtomicU64,
}

impl Times {
    pub fn new() -> Times {
        let latest_us = (0..KEPT_WRITES).map(|_| AtomicU32::new(0)).collect();
        Times {
            began: Instant::now(),
            latest_us,
            writes: AtomicU64::new(0),
            counts: Default::default(),
            sum_us: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
        }
    }

    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64 + 1
    }

    /// Performs a write and records its duration.
    pub fn measure<T>(&self, write: impl FnOnce() -> T) -> T {
        let start = self.now_us();
        self.under_way.store(start, Ordering::Relaxed);
        let done = write();
        let took = u32::try_from(self.now_us() - start).unwrap_or(u32::MAX);
        self.under_way.store(0, Ordering::Relaxed);
        self.counts[DurationHistogram::bucket(took.into())].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(took.into(), Ordering::Relaxed);
        let number = self.writes.load(Ordering::Relaxed);
        self.latest_us[number as usize % KEPT_WRITES].store(took, Ordering::Relaxed);
        self.writes.store(number + 1, Ordering::Release);
        done
    }

    /// Returns the percentiles of the latest writes.
    pub fn read(&self) -> WriteTimes {
        let writes = self.writes.load(Ordering::Acquire);
        let kept = writes.min(KEPT_WRITES as u64) as usize;
        let mut latest: Vec<u64> = self.latest_us[..kept].iter().map(|us| us.load(Ordering::Relaxed).into()).collect();
        latest.sort_unstable();
        let percentile = |percent: usize| latest.get((kept * percent / 100).min(kept.saturating_sub(1))).copied();
        let pending_us = match self.under_way.load(Ordering::Relaxed) {
            0 => 0,
            start => self.now_us().saturating_sub(start),
        };
        WriteTimes {
            writes,
            p50_us: percentile(50).unwrap_or(0),
            p99_us: percentile(99).unwrap_or(0),
            max_us: latest.last().copied().unwrap_or(0),
            pending_us,
            all: DurationHistogram {
                counts: std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)),
                sum_us: self.sum_us.load(Ordering::Relaxed),
            },
        }
    }
}
