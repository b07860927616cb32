//! When a leader has enough to propose.

use crate::config::{BatchPolicy, Config, LONGEST_WAIT_SHARE};
use quorate_types::Time;
use std::time::Duration;

/// What a leader does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Propose what there is.
    Propose,
    /// Wait this long for more.
    Wait(Duration),
    /// There is nothing to propose and nothing to commit.
    Rest,
}

/// What a leader knows when it decides.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Commands that wait.
    pub pending: usize,
    /// Whether blocks with commands wait for their commit, which takes further blocks.
    pub uncommitted: bool,
    /// Since when this leader could have proposed.
    pub ready_since: Time,
    /// The smoothed duration of a view.
    pub view: Option<Duration>,
}

/// Decides by the policy; learns the rate at which commands arrive.
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

/// Over how long the arrival rate is averaged.
const RATE_WINDOW: Duration = Duration::from_millis(100);

impl Batching {
    /// By the policy of the configuration.
    pub fn new(config: &Config) -> Self {
        Batching {
            policy: config.batch_policy,
            batch: config.batch,
            wait: Duration::from_millis(config.batch_wait_ms),
            longest: config.view_timeout() / LONGEST_WAIT_SHARE,
            waiting_since: None,
            arrived: 0,
            window: Time(0),
            per_second: 0.0,
        }
    }

    /// So many commands have arrived.
    pub fn arrived(&mut self, now: Time, commands: usize) {
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

    /// A block was proposed and so many commands still wait.
    pub fn proposed(&mut self, now: Time, pending: usize) {
        self.waiting_since = (pending > 0).then_some(now);
    }

    /// What to do.
    pub fn decide(&self, now: Time, situation: Situation) -> Decision {
        if situation.pending == 0 && !situation.uncommitted {
            return Decision::Rest;
        }
        // Commands that came back from an abandoned block did not arrive just now: they wait since this leader could propose.
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
