//! Timers of the kernel: a timer wheel with slots of one tick, and of 8, 64, .. ticks for later times.

use quorate_types::Time;

/// Ticks within which the wheel is exact. Each further level reaches eight times as far at an eighth of the resolution.
const LEVEL_TICKS: u64 = 63;
/// Binary logarithm of the ratio between two levels.
const LEVEL_SHIFT: u32 = 3;
/// Number of levels of the wheel.
const LEVELS: u32 = 8;

/// Converts a duration to whole ticks, rounded up.
pub fn in_ticks(ns: u64, tick_ns: u64) -> u64 {
    if tick_ns == 0 { ns } else { ns.div_ceil(tick_ns) * tick_ns }
}

/// Returns the expiry of a timer set at `now` for this duration: at a tick, and never early.
pub fn rings(now: Time, ns: u64, tick_ns: u64) -> Time {
    if tick_ns == 0 {
        return Time(now.0 + ns);
    }
    let ticks = ns.div_ceil(tick_ns);
    let level = (0..LEVELS).find(|level| ticks < LEVEL_TICKS << (LEVEL_SHIFT * level)).unwrap_or(LEVELS);
    let shift = LEVEL_SHIFT * level;
    let expires = now.0 / tick_ns + ticks;
    Time((((expires >> shift) + 1) << shift) * tick_ns)
}
