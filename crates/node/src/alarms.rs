//! A replica's alarms: one deadline for each.

use quorate_consensus::Timer;
use quorate_types::Time;
use std::time::Duration;

/// The deadlines of all alarms.
#[derive(Default)]
pub(crate) struct Alarms([Option<Time>; Timer::ALL.len()]);

impl Alarms {
    /// Sets an alarm, or sets it anew.
    pub fn arm(&mut self, timer: Timer, at: Time) {
        self.0[timer as usize] = Some(at);
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Time> {
        self.0.iter().flatten().min().copied()
    }

    /// Takes an alarm that is due; of several the earliest.
    pub fn ring(&mut self, now: Time) -> Option<Timer> {
        let armed = Timer::ALL.into_iter().filter_map(|timer| Some((self.0[timer as usize]?, timer)));
        let (_, timer) = armed.filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at)?;
        self.0[timer as usize] = None;
        Some(timer)
    }
}

/// How long to wait for the earlier of two moments: nothing if it is over, for ever if there is none.
pub(crate) fn wait_until(now: Time, first: Option<Time>, second: Option<Time>) -> Option<Duration> {
    first.into_iter().chain(second).min().map(|at| at.since(now))
}
