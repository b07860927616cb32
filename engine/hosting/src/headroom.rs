//! Measures whether a replica's core has idle time.

use quorate_types::Time;
use std::time::Duration;

/// Measurement window: long enough to span many blocks, and short compared to a view timeout.
const WINDOW: Duration = Duration::from_millis(5);
/// The core has idle time if it is idle for at least 1/N of a window.
const SPARE_PARTS: u64 = 8;

/// Measures whether a replica's core is idle for part of its time.
///
/// An idle core gains nothing if another thread verifies the signatures of one certificate: the answer only comes
/// later, and the next block waits for it. A fully busy core completes more blocks if others verify. If several blocks
/// are agreed on concurrently, a host does not measure this: other threads always verify.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headroom {
    measured: Time,
    busy_ns: u64,
    exists: bool,
}

impl Headroom {
    /// Returns whether the last measurement is old enough for another.
    pub fn is_due(&self, now: Time) -> bool {
        now.since(self.measured) >= WINDOW
    }

    /// Records the CPU time that the core has used so far, in nanoseconds.
    pub fn update(&mut self, now: Time, busy_ns: u64) {
        let passed_ns = now.since(self.measured).as_nanos() as u64;
        let worked_ns = busy_ns.saturating_sub(self.busy_ns);
        let spare_ns = passed_ns.saturating_sub(worked_ns);
        *self = Headroom { measured: now, busy_ns, exists: spare_ns * SPARE_PARTS >= passed_ns };
    }

    /// Returns whether the core was partly idle in the last window; false before the first.
    pub fn exists(&self) -> bool {
        self.exists
    }
}
