//! When a leader proposes: immediately, or after waiting for a fuller block.

use crate::config::{BatchPolicy, Config, MAX_WAIT_DIVISOR};
use quorate_types::Time;
use std::time::Duration;

/// A leader's decision whether to propose now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Propose the pending commands.
    Propose,
    /// Wait this long for more commands.
    Wait(Duration),
    /// Nothing to propose and nothing to commit.
    Rest,
}

/// Input to a leader's decision.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Number of pending commands.
    pub pending: usize,
    /// Whether blocks with commands are uncommitted: further blocks are needed to commit them.
    pub uncommitted: bool,
    /// Time since which this leader could have proposed.
    pub ready_since: Time,
    /// Smoothed duration of a view.
    pub view: Option<Duration>,
}

/// Batching policy with the measured arrival rate of commands.
pub struct Batching {
    policy: BatchPolicy,
    batch: usize,
    wait: Duration,
    longest: Duration,
    waiting_since: Option<Time>,
    arrived: u64,
    window: Time,
    per_second: f64,
}

/// Period over which the arrival rate is averaged.
const RATE_WINDOW: Duration = Duration::from_millis(100);

impl Batching {
    pub fn new(config: &Config) -> Self {
        Batching {
            policy: config.batch_policy,
            batch: config.batch,
            wait: Duration::from_millis(config.batch_wait_ms),
            longest: config.view_timeout() / MAX_WAIT_DIVISOR,
            waiting_since: None,
            arrived: 0,
            window: Time(0),
            per_second: 0.0,
        }
    }

    /// Records the arrival of commands.
    pub fn on_arrival(&mut self, now: Time, commands: usize) {
        self.waiting_since.get_or_insert(now);
        self.arrived += commands as u64;
        let elapsed = now.since(self.window);
        if elapsed >= RATE_WINDOW {
            let rate = self.arrived as f64 / elapsed.as_secs_f64();
            self.per_second = if self.per_second == 0.0 { rate } else { (self.per_second + rate) / 2.0 };
            self.arrived = 0;
            self.window = now;
        }
    }

    /// Records that a block was proposed, with `pending` commands left over.
    pub fn on_proposal(&mut self, now: Time, pending: usize) {
        self.waiting_since = (pending > 0).then_some(now);
    }

    /// Decides whether to propose now.
    pub fn decide(&self, now: Time, situation: Situation) -> Decision {
        if situation.pending == 0 && !situation.uncommitted {
            return Decision::Rest;
        }
        // Commands that came back from an abandoned block did not arrive just now: they have waited since this leader
        // could propose.
        let waited = now.since(self.waiting_since.unwrap_or(situation.ready_since));
        let (target, waited, patience) = match self.policy {
            BatchPolicy::Eager => return Decision::Propose,
            _ if situation.pending == 0 => return Decision::Propose,
            BatchPolicy::Full => (self.batch, now.since(situation.ready_since), self.longest),
            BatchPolicy::Timed => (self.batch, waited, self.wait),
            BatchPolicy::Adaptive => {
                let view = situation.view.unwrap_or_default().min(self.longest);
                let expected = (self.per_second * view.as_secs_f64()).ceil() as usize;
                (expected.clamp(1, self.batch), waited, view)
            }
        };
        match situation.pending >= target || waited >= patience {
            true => Decision::Propose,
            false => Decision::Wait(patience - waited),
        }
    }
}
