//! Corrections of the wall clock for a replica.

use quorate_types::Time;

/// Maximum error of the wall clock as the replica knows it, in milliseconds.
const MAX_ERROR_MS: u64 = 5;

/// The wall clock as the replica knows it: by the host's monotonic clock, and where that begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    known_ms: Option<u64>,
}

impl WallClock {
    /// Returns the wall clock at [`Time`] 0, in milliseconds since the Unix epoch, if the replica does not know it well
    /// enough: for [`Input::Clock`](quorate_consensus::Input::Clock). `unix_ms` is the wall clock at `now`.
    pub fn correction(&mut self, now: Time, unix_ms: u64) -> Option<u64> {
        let origin_ms = unix_ms.saturating_sub(now.0 / 1_000_000);
        if self.known_ms.is_some_and(|known| known.abs_diff(origin_ms) <= MAX_ERROR_MS) {
            return None;
        }
        self.known_ms = Some(origin_ms);
        Some(origin_ms)
    }
}
