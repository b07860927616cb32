//! Send times of an open loop with a changing rate.

use crate::load::options::LoadStep;
use std::time::Duration;

/// Interval in which the rate changes linearly.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Seconds from the start of the load.
    begins: f64,
    /// Commands due before it.
    before: f64,
    /// Commands per second at its start.
    rate: f64,
    /// Change of the rate per second, in commands per second.
    slope: f64,
}

impl Piece {
    /// Returns how many commands are due by `seconds` after its start.
    fn due(&self, seconds: f64) -> f64 {
        self.rate * seconds + self.slope * seconds * seconds / 2.0
    }

    /// Returns the time at which command `number` of this piece is due, in seconds from its start: the inverse of
    /// `due`.
    fn time_of(&self, number: f64) -> f64 {
        if self.slope == 0.0 {
            return number / self.rate;
        }
        // This form of the root loses no precision if the slope is small.
        let root = (self.rate * self.rate + 2.0 * self.slope * number).max(0.0).sqrt();
        2.0 * number / (self.rate + root)
    }
}

/// Send times of an open loop's commands.
#[derive(Clone, Debug)]
pub struct Pace(Vec<Piece>);

impl Pace {
    /// Returns the times for `rate` commands per second until `warmup` is over, and then for the steps.
    pub fn new(rate: f64, warmup: Duration, steps: &[LoadStep]) -> Pace {
        let mut pieces = vec![Piece { begins: 0.0, before: 0.0, rate, slope: 0.0 }];
        let mut lasts = warmup.as_secs_f64();
        let mut follow = |lasts: f64, rate: f64, slope: f64| {
            let last: Piece = pieces[pieces.len() - 1];
            let (begins, before) = (last.begins + lasts, last.before + last.due(lasts));
            pieces.push(Piece { begins, before, rate, slope });
        };
        for step in steps {
            let seconds = step.lasts.as_secs_f64();
            follow(lasts, step.from, (step.to - step.from) / seconds);
            lasts = seconds;
        }
        // After the steps, the last rate continues.
        if let Some(step) = steps.last() {
            follow(lasts, step.to, 0.0);
        }
        Pace(pieces)
    }

    /// Returns the time at which command `number`, counted from 0, is due, from the start of the load.
    pub fn time_of(&self, number: u64) -> Duration {
        let number = number as f64;
        let after = self.0.partition_point(|piece| piece.before <= number);
        let piece = &self.0[after.max(1) - 1];
        Duration::from_nanos(((piece.begins + piece.time_of(number - piece.before)) * 1e9) as u64)
    }
}
