//! Measurement of how late bundles arrive by themselves, relative to the block that names them.
//!
//! Clients, or replicas that spread, send bundles to all replicas. Under load a block may overtake the bundles that it
//! names. Requesting them is then worse than waiting: they arrive twice and are hashed twice, which delays the next
//! ones. So before requesting the missing bundles of a proposal, a replica waits for the usual lateness of bundles:
//! mean and deviation are smoothed with the gains of RFC 6298, section 2, but each block counts once, and each of its
//! bundles as one part of it. Bundles that arrived before the block count as not late. So the wait follows the typical
//! lateness: an owner whose bundles are late on purpose prolongs it to its own lateness only if it owns an eighth of
//! all bundles.
//!
//! The wait is bounded, because blocks may name bundles that arrive only on request.

use crate::config::Config;
use crate::data::digest_map::{DigestMap, Salt};
use quorate_types::{Digest, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum wait in multiples of `fetch_delay_ms`.
pub const MAX_MULTIPLE: u32 = 10;
/// The wait is at most 1/N of the shortest view timeout, but at least `fetch_delay_ms`.
pub const VIEW_DIVISOR: u32 = 4;
/// Weight of a block in the smoothed mean, 1/N, and in the smoothed deviation.
const MEAN_WEIGHT: u64 = 8;
const DEVIATION_WEIGHT: u64 = 4;
/// Number of deviations by which the wait exceeds the mean.
const DEVIATIONS: u64 = 4;
/// Maximum number of missing bundles whose arrival is awaited; the oldest ones are forgotten first.
const MAX_EXPECTED: usize = 8192;

/// Missing bundle.
#[derive(Clone, Copy)]
struct Expected {
    /// Arrival time of its block.
    named: Time,
    /// Number of bundles in that block.
    of: u64,
}

/// Measured lateness of bundles.
pub struct Lateness {
    least_ns: u64,
    most_ns: u64,
    mean_ns: u64,
    deviation_ns: u64,
    expected: DigestMap<Expected>,
    /// The expected bundles, oldest first, and some that have already arrived.
    order: VecDeque<(Digest, Time)>,
}

impl Lateness {
    pub fn new(config: &Config, salt: Salt) -> Lateness {
        let least = Duration::from_millis(config.fetch_delay_ms);
        let shortest = config.shortest_view_timeout();
        let most = least.saturating_mul(MAX_MULTIPLE).min(shortest / VIEW_DIVISOR).max(least);
        Lateness {
            least_ns: nanos(least),
            most_ns: nanos(most),
            mean_ns: 0,
            deviation_ns: 0,
            expected: DigestMap::with_hasher(salt),
            order: VecDeque::new(),
        }
    }

    /// Returns how long to wait for a missing bundle before it is requested.
    pub fn wait(&self) -> Duration {
        let wait = self.mean_ns + DEVIATIONS * self.deviation_ns;
        Duration::from_nanos(wait.clamp(self.least_ns, self.most_ns))
    }

    /// Records a proposal that names this many bundles. The bundles in `lacking` have not arrived yet.
    pub fn on_proposal(&mut self, now: Time, named: usize, lacking: &[Digest]) {
        let of = named as u64;
        if of == 0 || self.most_ns == 0 {
            return;
        }
        self.learn(0, of - lacking.len() as u64, of);
        for digest in lacking {
            if self.order.len() >= MAX_EXPECTED {
                self.forget_first();
            }
            self.expected.insert(*digest, Expected { named: now, of });
            self.order.push_back((*digest, now));
        }
    }

    fn forget_first(&mut self) {
        let Some((digest, named)) = self.order.pop_front() else { return };
        if self.expected.get(&digest).is_some_and(|expected| expected.named == named) {
            self.expected.remove(&digest);
        }
    }

    /// Returns whether a bundle was missing and has not arrived by itself yet.
    pub fn expects(&self, bundle: &Digest) -> bool {
        self.expected.contains_key(bundle)
    }

    /// Records that a bundle arrived by itself, whether or not it had to be requested before.
    pub fn on_arrival(&mut self, now: Time, bundle: &Digest) {
        if let Some(Expected { named, of }) = self.expected.remove(bundle) {
            self.learn(nanos(now.since(named)).min(self.most_ns), 1, of);
        }
    }

    /// Takes `count` of the `of` parts of a block into account, all with the same lateness.
    fn learn(&mut self, late_ns: u64, count: u64, of: u64) {
        let apart = self.mean_ns.abs_diff(late_ns);
        self.deviation_ns = towards(self.deviation_ns, apart, count, DEVIATION_WEIGHT * of);
        self.mean_ns = towards(self.mean_ns, late_ns, count, MEAN_WEIGHT * of);
    }

    /// Checks the invariants after a step.
    pub fn invariants(&self) {
        assert!(
            self.mean_ns.max(self.deviation_ns) <= self.most_ns,
            "no lateness counts for more than the longest wait"
        );
        assert!(self.expected.len() <= self.order.len(), "all expected bundles are in order");
        assert!(self.order.len() <= MAX_EXPECTED, "expected bundles are bounded");
    }
}

/// Moves `from` by `part/whole` of the way to `to`.
fn towards(from: u64, to: u64, part: u64, whole: u64) -> u64 {
    let step = (u128::from(from.abs_diff(to)) * u128::from(part) / u128::from(whole)) as u64;
    if to > from { from + step } else { from - step }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
