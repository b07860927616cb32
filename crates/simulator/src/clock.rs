//! A replica's clock, which may run apart from the world's.

use quorate_types::Time;

/// A time that never comes.
pub const NEVER: Time = Time(u64::MAX);
/// Own nanoseconds in a million of the world's, for a clock that is right.
pub const TRUE_RATE: u64 = 1_000_000;

/// What a replica takes for the time. It never goes back, however fast or slow it runs.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The world's time when the rate changed last, and what the clock showed then.
    since: Time,
    shown: Time,
    rate: u64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { since: Time(0), shown: Time(0), rate: TRUE_RATE }
    }
}

impl Clock {
    /// What it shows at a time of the world.
    pub fn shows(&self, now: Time) -> Time {
        let passed = now.0 - self.since.0;
        Time(self.shown.0 + scale(passed, self.rate, TRUE_RATE, 0))
    }

    /// The first time of the world at which it shows `own`, or later.
    pub fn reaches(&self, own: Time) -> Time {
        if own.0 == u64::MAX {
            return own;
        }
        let missing = own.0.saturating_sub(self.shown.0);
        Time(self.since.0 + scale(missing, TRUE_RATE, self.rate, self.rate - 1))
    }

    /// From now on it runs at another rate, which is not 0.
    pub fn run_at(&mut self, now: Time, rate: u64) {
        assert!(rate > 0, "a clock that stands still is a pause");
        *self = Clock { since: now, shown: self.shows(now), rate };
    }
}

fn scale(nanos: u64, by: u64, over: u64, round_up: u64) -> u64 {
    if by == over {
        return nanos;
    }
    let scaled = (u128::from(nanos) * u128::from(by) + u128::from(round_up)) / u128::from(over);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
