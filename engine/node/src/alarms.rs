//! A replica's alarms: one deadline per timer.

use quorate_consensus::Timer;
use quorate_types::Time;
use std::time::Duration;

/// Deadlines of all timers.
#[derive(Default)]
pub(crate) struct Alarms([Option<Time>; Timer::ALL.len()]);

impl Alarms {
    /// Sets or resets an alarm.
    pub fn arm(&mut self, timer: Timer, at: Time) {
        self.0[timer as usize] = Some(at);
    }

    /// Returns the earliest deadline.
    pub fn next(&self) -> Option<Time> {
        self.0.iter().flatten().min().copied()
    }

    /// Removes and returns the earliest alarm that is due.
    pub fn ring(&mut self, now: Time) -> Option<Timer> {
        let armed = Timer::ALL.into_iter().filter_map(|timer| Some((self.0[timer as usize]?, timer)));
        let (_, timer) = armed.filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at)?;
        self.0[timer as usize] = None;
        Some(timer)
    }
}

/// Returns the time until the earlier of two deadlines: zero if it has passed, `None` if neither is set.
pub(crate) fn wait_until(now: Time, first: Option<Time>, second: Option<Time>) -> Option<Duration> {
    first.into_iter().chain(second).min().map(|at| at.since(now))
}
