//! Whether a replica's core has time to spare.

use quorate_types::Time;
use std::time::Duration;

/// Time between two measurements. It spans many blocks, and is short beside a view timeout.
const WINDOW: Duration = Duration::from_millis(5);
/// Of a window, the core has at least one part in this many to spare.
const SPARE_PARTS: u64 = 8;

/// Whether a replica's core waits for others for part of its time.
///
/// A core that does gains nothing if another thread verifies the signatures of one certificate: it only gets the answer
/// later, and the next block waits for that. A core that has no time to spare gets through more blocks if others verify.
/// Where several blocks are agreed on at the same time, a host does not measure it: others always verify.
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

    /// Takes the processor time that the core has used so far, in nanoseconds.
    pub fn update(&mut self, now: Time, busy_ns: u64) {
        let passed_ns = now.since(self.measured).as_nanos() as u64;
        let worked_ns = busy_ns.saturating_sub(self.busy_ns);
        let spare_ns = passed_ns.saturating_sub(worked_ns);
        *self = Headroom { measured: now, busy_ns, exists: spare_ns * SPARE_PARTS >= passed_ns };
    }

    /// Returns whether the core had time to spare in the last window; false before the first.
    pub fn exists(&self) -> bool {
        self.exists
    }
}
