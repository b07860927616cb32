//! Holding back of commands for a fuller block, by a leader that sizes its blocks itself.
//!
//! A block costs the replicas the same work whether it contains one command or a thousand. At partial load, a leader
//! that proposes immediately spends this work on small blocks. So blocks with commands keep a distance in time,
//! provided that more commands are expected from the arrival rate and actually keep arriving. Clients that wait for
//! answers send nothing more once all their commands have arrived, and a leader that waited for them would only delay
//! them.

use crate::config::Config;
use quorate_types::Time;
use std::time::Duration;

/// Maximum time between two blocks with commands for the sake of fuller ones.
pub const MAX_HOLD: Duration = Duration::from_micros(3500);
/// Part of the hold after which the next arriving commands end it. They would wait longest for its end, and clients
/// that send in bursts have just done so.
const RIPE_PART: (u32, u32) = (5, 7);
/// Minimum number of expected commands that justify a hold.
pub const MIN_EXPECTED_COMMANDS: u64 = 20;
/// Number of commands, and of bytes, from which a block's cost is dominated by its contents.
pub const FULL_COMMANDS: usize = 1500;
pub const FULL_BYTES: usize = 96 << 10;
/// If nothing arrives for 1/N of the hold, nothing more is expected.
const QUIET_DIVISOR: u32 = 2;
/// Holding back is useless if, on average, nothing arrives in this last part of a hold. Clients that wait for answers
/// are silent then until the hold ends for that reason; clients that send a burst every third of a hold are silent for
/// half of that third.
const VAIN_PART: (u32, u32) = (5, 12);
/// Weight of the last hold in that average: 1/N.
const SMOOTHING: u32 = 4;
/// Number of holds without an arrival after which a replica reads clients' frames immediately again.
const PATIENT_HOLDS: u32 = 2;
/// Time for which the leader holds nothing back after a useless hold. It doubles each time.
const MIN_PAUSE: Duration = Duration::from_millis(16);
const MAX_DOUBLINGS: u32 = 6;
/// Period over which the arrival rate is averaged.
const RATE_WINDOW: Duration = Duration::from_millis(20);

/// Distance between blocks with commands.
pub struct Pace {
    hold: Duration,
    /// Commands that arrived since `window`.
    arrived: u64,
    window: Time,
    per_second: u64,
    last_arrival: Time,
    /// When the last block with commands was proposed.
    last_block: Option<Time>,
    /// Whether commands are being held back.
    holds: bool,
    /// Smoothed time from the last arrival to the end of a hold.
    silence: Duration,
    /// Number of pauses since holding back was last useful.
    pauses: u32,
    paused_until: Time,
}

impl Pace {
    pub fn new(config: &Config) -> Pace {
        Pace {
            hold: config.batch_latency().min(MAX_HOLD),
            arrived: 0,
            window: Time(0),
            per_second: 0,
            last_arrival: Time(0),
            last_block: None,
            holds: false,
            silence: Duration::ZERO,
            pauses: 0,
            paused_until: Time(0),
        }
    }

    pub fn on_arrival(&mut self, now: Time, commands: usize) {
        self.last_arrival = now;
        self.arrived += commands as u64;
        let elapsed = now.since(self.window);
        if elapsed >= RATE_WINDOW {
            let rate = u128::from(self.arrived) * 1_000_000_000 / elapsed.as_nanos();
            self.per_second = u64::try_from(rate).unwrap_or(u64::MAX);
            (self.arrived, self.window) = (0, now);
        }
    }

    /// Records a block with commands, of this leader or another. If commands were being held back, returns the maximum
    /// time until the next hold ends: a leader sets its alarm to it, so that this hold's alarm does not fire.
    pub fn on_block(&mut self, now: Time) -> Option<Duration> {
        self.last_block = Some(now);
        std::mem::take(&mut self.holds).then_some(self.hold)
    }

    /// Returns how long to hold back the pending commands, or `None` to propose them now.
    pub fn hold(&mut self, now: Time, commands: usize, bytes: usize) -> Option<Duration> {
        let last_block = self.last_block?;
        let (ripe, end) = (last_block + self.hold * RIPE_PART.0 / RIPE_PART.1, last_block + self.hold);
        let expected = self.expected();
        let quiet = self.last_arrival + self.hold / QUIET_DIVISOR;
        let is_full = commands >= FULL_COMMANDS || bytes >= FULL_BYTES;
        if is_full || now >= end || now >= quiet || self.last_arrival >= ripe {
            self.end_hold(now, is_full);
            return None;
        }
        if now < self.paused_until || expected < u128::from(MIN_EXPECTED_COMMANDS) {
            return None;
        }
        self.holds = true;
        Some(end.min(quiet).since(now))
    }

    /// Returns how long a replica that does not lead may leave clients' frames unread: while commands stream in, it
    /// need not wake up for them, since it reads them with the next proposal. `None` if it reads them immediately.
    pub fn patience(&self, now: Time) -> Option<Duration> {
        let expected = self.expected();
        let is_stream = expected >= u128::from(MIN_EXPECTED_COMMANDS) && expected < FULL_COMMANDS as u128;
        let goes_on = now < self.last_arrival + self.hold * PATIENT_HOLDS;
        (is_stream && goes_on).then_some(self.hold)
    }

    /// Returns the number of commands expected during a hold.
    fn expected(&self) -> u128 {
        u128::from(self.per_second) * self.hold.as_nanos() / 1_000_000_000
    }

    /// Evaluates the hold that ends now, if commands were held back.
    fn end_hold(&mut self, now: Time, is_full: bool) {
        if !std::mem::take(&mut self.holds) {
            return;
        }
        let silence = if is_full { Duration::ZERO } else { now.since(self.last_arrival) };
        self.silence = (self.silence * (SMOOTHING - 1) + silence) / SMOOTHING;
        let most = self.hold * VAIN_PART.0 / VAIN_PART.1;
        if self.silence > most {
            self.silence = most;
            self.paused_until = now + MIN_PAUSE * (1 << self.pauses.min(MAX_DOUBLINGS));
            self.pauses = self.pauses.saturating_add(1);
        } else if self.silence < most * 2 / 3 {
            self.pauses = 0;
        }
    }
}
