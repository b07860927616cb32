//! View changes: the probability that a timeout ends a view that would have succeeded, and the best timeout.
//!
//! A request that no quorum commits within the timeout T costs a view change, and is tried again. Let F be the
//! distribution of this time L, and V the duration of a view change. If attempts are independent, their number is
//! geometric, and the mean time until a request commits is
//!
//! (E[min(L, T)] + (1 - F(T)) V) / F(T).
//!
//! The throughput of one request at a time is its inverse. The best timeout minimizes the mean time. The formula
//! ignores that timeouts grow after failures and that a view change can fail as well, so it is a lower bound on the
//! cost under heavy loss.

use crate::models::binomial::Binomials;
use crate::models::committee::Committee;
use crate::models::delay::Times;
use crate::models::grid::{Awaited, Distribution};
use serde::{Deserialize, Serialize};

/// Gain in throughput below which a shorter timeout counts as equally good.
const INDIFFERENT: f64 = 1e-6;

/// Effect of a timeout.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Timeout {
    pub timeout_ms: f64,
    /// Probability that a request needs a view change.
    pub probability: f64,
    /// Requests committed per second, one at a time; 0 if no request ever commits.
    pub throughput_per_s: f64,
}

/// Timeouts of a cluster.
#[derive(Clone, Debug)]
pub struct Timeouts {
    quorum: Distribution,
    /// Mean duration of a view change in ms: a quorum of messages to the new leader, and its message to the others.
    view_change_ms: f64,
}

impl Timeouts {
    /// Prepares the computation for a distribution of the time at which a quorum has committed.
    pub fn new(quorum: Distribution, committee: Committee, times: &Times) -> Timeouts {
        let (others, needed) = (committee.active() - 1, committee.quorum() - 1);
        let tables = Binomials::new(others.max(1));
        let asked =
            Awaited { groups: &[(others, &times.vote), (0, &times.vote)], single: &[] }.at_least(needed, &tables);
        let parts = [asked.mean_ms(), times.vote.mean_ms()];
        Timeouts { quorum, view_change_ms: parts.into_iter().flatten().sum() }
    }

    /// Mean duration of a view change in ms.
    pub fn view_change_ms(&self) -> f64 {
        self.view_change_ms
    }

    /// Returns the effect of a timeout.
    pub fn of(&self, timeout_ms: f64) -> Timeout {
        let step = self.quorum.grid().step_ms;
        let in_time = self.quorum.within(timeout_ms).min(1.0);
        let spent: f64 = self
            .quorum
            .masses()
            .iter()
            .enumerate()
            .map(|(at, mass)| (at as f64 * step, mass))
            .take_while(|(ms, _)| *ms <= timeout_ms)
            .map(|(ms, mass)| ms * mass)
            .sum();
        let each = spent + (1.0 - in_time) * (timeout_ms + self.view_change_ms);
        let throughput_per_s = if in_time > 0.0 && each > 0.0 { 1000.0 * in_time / each } else { 0.0 };
        Timeout { timeout_ms, probability: 1.0 - in_time, throughput_per_s }
    }

    /// Returns the shortest timeout with the highest throughput; `None` if nothing ever commits. O(points).
    pub fn best(&self) -> Option<Timeout> {
        let step = self.quorum.grid().step_ms;
        let (mut in_time, mut spent) = (0.0f64, 0.0);
        let mut best: Option<(f64, f64)> = None;
        for (at, mass) in self.quorum.masses().iter().enumerate() {
            in_time += mass;
            spent += mass * at as f64 * step;
            // Half a step later, where the distribution function is known.
            let timeout_ms = (at as f64 + 0.5) * step;
            let each = spent + (1.0 - in_time.min(1.0)) * (timeout_ms + self.view_change_ms);
            if in_time > 0.0 && each > 0.0 {
                let throughput = in_time / each;
                if best.is_none_or(|(_, highest)| throughput > highest * (1.0 + INDIFFERENT)) {
                    best = Some((timeout_ms, throughput));
                }
            }
        }
        best.map(|(timeout_ms, _)| self.of(timeout_ms))
    }
}
