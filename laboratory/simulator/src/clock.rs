//! Clock of a replica, which may drift from virtual time.

use quorate_types::Time;

pub const NEVER: Time = Time(u64::MAX);
/// Rate of an exact clock: nanoseconds per million nanoseconds of virtual time.
pub const TRUE_RATE: u64 = 1_000_000;
pub const NS_PER_MS: f64 = 1e6;

/// True time at virtual time 0, in milliseconds since the Unix epoch: the beginning of 2026.
const EPOCH_MS: u64 = 1_767_225_600_000;

/// Returns the true time at virtual time `now`, in milliseconds since the Unix epoch.
pub fn unix_ms(now: Time) -> u64 {
    EPOCH_MS + now.0 / 1_000_000
}

/// Converts milliseconds to whole nanoseconds.
pub fn ms_to_ns(ms: f64) -> u64 {
    (ms * NS_PER_MS) as u64
}

/// Monotonic clock of a replica.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Virtual time of the last change of the rate, and the clock's time at that moment.
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
    /// Returns the clock's time at virtual time `now`.
    pub fn shows(&self, now: Time) -> Time {
        let passed = now.0 - self.since.0;
        Time(self.shown.0 + scale(passed, self.rate, TRUE_RATE, 0))
    }

    /// Returns the first virtual time at which the clock shows at least `own`.
    pub fn reaches(&self, own: Time) -> Time {
        if own.0 == u64::MAX {
            return own;
        }
        let missing = own.0.saturating_sub(self.shown.0);
        Time(self.since.0 + scale(missing, TRUE_RATE, self.rate, self.rate - 1))
    }

    /// Sets the rate from `now` on. It must not be 0.
    pub fn run_at(&mut self, now: Time, rate: u64) {
        assert!(rate > 0, "a clock must not stop; pause the replica instead");
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
