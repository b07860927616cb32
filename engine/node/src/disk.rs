//! The free space of the disk with the journal: how much is left, and when it will be used up.

use quorate_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Time between two readings of the free space.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Free space below which the disk needs attention, in bytes: a journal grows by segments of 16 MiB, and a new state is
/// written before the old one is removed.
pub const MIN_CALM_BYTES: u64 = 512 << 20;
/// Time between two readings that are kept.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(600);
/// Number of readings that are kept: a day.
const MAX_SAMPLES: usize = 144;
/// Time of use below which it is no rate.
const MIN_PERIOD: Duration = Duration::from_secs(600);
/// A disk that will be full within this time needs attention.
const MIN_LEFT: Duration = Duration::from_secs(24 * 60 * 60);

/// Readings of the free space in the last day.
#[derive(Default)]
pub struct FreeSpace {
    /// Oldest first.
    samples: VecDeque<(Time, u64)>,
    last: Option<(Time, u64)>,
}

impl FreeSpace {
    /// Returns whether it is time for a reading.
    pub fn is_due(&self, now: Time) -> bool {
        self.last.is_none_or(|(last, _)| now.since(last) >= LOOK_INTERVAL)
    }

    /// Records a reading, in bytes.
    pub fn read(&mut self, now: Time, free: u64) {
        self.last = Some((now, free));
        if self.samples.back().is_none_or(|(last, _)| now.since(*last) >= SAMPLE_INTERVAL) {
            if self.samples.len() == MAX_SAMPLES {
                self.samples.pop_front();
            }
            self.samples.push_back((now, free));
        }
    }

    /// Returns the time until only `reserve` bytes are left at the rate since the oldest reading, at most a day ago,
    /// and the time that the rate is over; `None` if the free space does not shrink, or too little is known.
    pub fn forecast(&self, reserve: u64) -> Option<(Duration, Duration)> {
        let ((begun, before), (now, free)) = (*self.samples.front()?, self.last?);
        let (period, used) = (now.since(begun), before.checked_sub(free).filter(|used| *used > 0)?);
        let left = free.saturating_sub(reserve) as f64 / used as f64 * period.as_secs_f64();
        (period >= MIN_PERIOD).then(|| (Duration::from_secs_f64(left.min(1e9)), period))
    }

    /// Returns why the disk needs attention, as a sentence, if it does.
    pub fn attention(&self, reserve: u64) -> Option<String> {
        let (_, free) = self.last?;
        let forecast = self.forecast(reserve);
        if free >= MIN_CALM_BYTES && forecast.is_none_or(|(left, _)| left >= MIN_LEFT) {
            return None;
        }
        let when = forecast.map_or_else(String::new, |(left, period)| {
            format!(", and at the rate of the last {} the replica stops in {}", spelt(period), spelt(left))
        });
        Some(format!("the disk has {} MiB left{when}", free >> 20))
    }
}

/// Formats a duration in hours and minutes.
fn spelt(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    format!("{} h {} min", minutes / 60, minutes % 60)
}
