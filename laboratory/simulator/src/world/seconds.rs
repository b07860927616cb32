//! Counters of the replicas at each second of the measured time.

use quorate_types::{Status, Time};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Counters of all replicas at one point in time; `None` for a replica that is down.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// From the start of the measured time.
    pub at: Duration,
    pub replicas: Vec<Option<Counts>>,
}

/// Counters of one replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Commands executed in its present life or restored from its journal.
    pub executed_commands: u64,
    pub view: u64,
    /// Views that timed out in its present life.
    pub view_timeouts: u64,
}

impl Counts {
    pub fn of(status: &Status) -> Counts {
        Counts {
            executed_commands: status.committed_commands,
            view: status.view.0,
            view_timeouts: status.view_timeouts,
        }
    }
}

/// Readings of a run, one at each second of the measured time and one at its end.
#[derive(Default)]
pub struct Seconds {
    begun: Option<Time>,
    is_over: bool,
    pub readings: Vec<Reading>,
}

impl Seconds {
    /// Takes the first reading.
    pub fn begin(&mut self, now: Time, replicas: Vec<Option<Counts>>) {
        self.begun = Some(now);
        self.readings.push(Reading { at: Duration::ZERO, replicas });
    }

    /// Returns whether a second ends before the event at `next`.
    pub fn are_due(&self, next: Time) -> bool {
        !self.is_over && self.begun.is_some_and(|begun| next > begun + SECOND * self.readings.len() as u32)
    }

    /// Takes the readings of the seconds that end before the event at `next`.
    pub fn read(&mut self, next: Time, replicas: Vec<Option<Counts>>) {
        while self.are_due(next) {
            let at = SECOND * self.readings.len() as u32;
            self.readings.push(Reading { at, replicas: replicas.clone() });
        }
    }

    /// Takes the last reading.
    pub fn end(&mut self, now: Time, replicas: Vec<Option<Counts>>) {
        let Some(begun) = self.begun.filter(|_| !self.is_over) else { return };
        self.is_over = true;
        self.readings.push(Reading { at: now.since(begun), replicas });
    }
}
