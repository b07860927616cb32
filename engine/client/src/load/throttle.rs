//! Pace of an open loop while replicas refuse its commands because of load.
//!
//! A generator that continued at its rate would fill the replicas' network interfaces with refused commands. One that
//! paused and then continued would send in bursts, and the replicas' votes would wait behind them. So it pauses for as
//! long as the replicas request, continues more slowly, and speeds up until they refuse again.

use quorate_types::Time;
use std::time::Duration;

/// When commands are refused, the pace falls by 1/N, but not below the execution rate.
const SLOWING_DIVISOR: u64 = 4;
/// In each of these periods without a refusal, the pace grows by 1/N. The growth doubles each time this many periods
/// have passed, up to half the pace; but it stays 1/N near the pace at which commands were recently refused.
const GROWTH_DIVISOR: u64 = 16;
const GROWTH_INTERVAL: Duration = Duration::from_millis(100);
const INTERVALS_TO_DOUBLE: u32 = 5;
const MAX_DOUBLINGS: u32 = 3;
/// The pace is near the refused pace if it is lower by less than 1/N of it.
const NEAR_DIVISOR: u64 = 4;
/// Each refusal at a lower pace lowers the refused pace by 1/N.
const FORGETTING_DIVISOR: u64 = 8;
/// Period over which the execution rate is measured.
const RATE_WINDOW: Duration = Duration::from_millis(500);
/// A rate measured over less than this is not extrapolated.
const MIN_RATE_WINDOW: Duration = Duration::from_millis(100);
/// Maximum time by which commands may be sent in advance.
const MAX_BURST: Duration = Duration::from_millis(20);
/// The pace becomes unlimited after this time without a refused or withheld command.
const CALM: Duration = Duration::from_secs(1);
const NS_PER_S: u128 = 1_000_000_000;

/// Decides which due commands are withheld from an overloaded cluster.
#[derive(Clone, Debug)]
pub struct Throttle {
    /// Whether the pace is limited.
    is_on: bool,
    /// Time before which nothing is sent.
    held_until: Time,
    /// When a command was last refused or withheld.
    troubled_at: Time,
    /// Commands executed since `window`.
    executed: u64,
    /// Commands sent since then.
    sent: u64,
    window: Time,
    /// Commands executed, and sent, per second in the last period.
    per_second: u64,
    sent_per_second: u64,
    /// Permitted commands per second, and when that was last set.
    pace: u64,
    paced_at: Time,
    /// Number of times that it has grown since the last refusal.
    growths: u32,
    /// The highest pace at which commands were recently refused.
    refused_pace: u64,
    /// Minimum number of commands per second, as cautious probes while nothing is executed.
    least: u64,
    /// Credit of the pace, in billionths of a command.
    credit: u128,
    credited_at: Time,
}

impl Throttle {
    /// Returns an unlimited pace. Once limited, it never falls below `least` commands per second.
    pub fn new(least: u64) -> Throttle {
        Throttle {
            is_on: false,
            held_until: Time(0),
            troubled_at: Time(0),
            executed: 0,
            sent: 0,
            window: Time(0),
            per_second: 0,
            sent_per_second: 0,
            pace: 0,
            paced_at: Time(0),
            growths: 0,
            refused_pace: 0,
            least: least.max(1),
            credit: 0,
            credited_at: Time(0),
        }
    }

    /// Called with the number of commands that a reply shows to be executed.
    #[inline]
    pub fn on_executed(&mut self, commands: u64) {
        self.executed += commands;
    }

    /// Updates the measured rates.
    fn count(&mut self, now: Time) {
        let elapsed = now.since(self.window);
        if elapsed >= RATE_WINDOW {
            (self.per_second, self.sent_per_second) = (rate(self.executed, elapsed), rate(self.sent, elapsed));
            (self.executed, self.sent, self.window) = (0, 0, now);
        }
    }

    /// Records that replicas refused commands, and requested a pause of `wait`.
    pub fn on_busy(&mut self, now: Time, wait: Duration) {
        self.troubled_at = now;
        // Other commands were in flight when the first was refused.
        if now < self.held_until {
            return;
        }
        self.held_until = now + wait;
        let sent = rate(self.sent, now.since(self.window).max(MIN_RATE_WINDOW));
        let pace = if self.is_on { self.pace } else { self.sent_per_second.max(sent) };
        self.refused_pace = pace.max(self.refused_pace - self.refused_pace / FORGETTING_DIVISOR);
        self.pace = (pace - pace / SLOWING_DIVISOR).max(self.per_second).max(self.least);
        (self.paced_at, self.growths) = (self.held_until, 0);
        (self.is_on, self.credit, self.credited_at) = (true, 0, self.held_until);
    }

    /// Returns whether a due command may be sent.
    #[inline]
    pub fn allows(&mut self, now: Time) -> bool {
        self.count(now);
        let allows = !self.is_on || self.allows_limited(now);
        self.sent += u64::from(allows);
        allows
    }

    fn allows_limited(&mut self, now: Time) -> bool {
        if now.since(self.troubled_at) >= CALM {
            self.is_on = false;
            return true;
        }
        while now >= self.paced_at + GROWTH_INTERVAL {
            self.paced_at = self.paced_at + GROWTH_INTERVAL;
            let is_near = self.pace >= self.refused_pace - self.refused_pace / NEAR_DIVISOR;
            let doublings = if is_near { 0 } else { (self.growths / INTERVALS_TO_DOUBLE).min(MAX_DOUBLINGS) };
            self.growths = self.growths.saturating_add(1);
            self.pace = self.pace.saturating_add(self.pace.div_ceil(GROWTH_DIVISOR >> doublings));
        }
        let pace = u128::from(self.pace);
        if now > self.credited_at {
            self.credit += pace * now.since(self.credited_at).as_nanos();
            self.credit = self.credit.min((pace * MAX_BURST.as_nanos()).max(u128::from(self.least) * NS_PER_S / 10));
            self.credited_at = now;
        }
        // While nothing may be sent, no credit accrues: it counts from `held_until`.
        let allows = self.credit >= NS_PER_S;
        match allows {
            true => self.credit -= NS_PER_S,
            false => self.troubled_at = now,
        }
        allows
    }
}

/// Returns a count per second.
fn rate(count: u64, elapsed: Duration) -> u64 {
    u64::try_from(u128::from(count) * NS_PER_S / elapsed.as_nanos().max(1)).unwrap_or(u64::MAX)
}
