//! Wall clock of a replica, and the rule by which it votes for the time of a block.
//!
//! A replica votes for a proposal only if the block's time is near its own clock. A block with a quorum of such votes
//! was near the clocks of at least f+1 honest replicas. Certified blocks, and slots that a view change carries over,
//! are not judged again: honest replicas have judged them.

use crate::config::Config;
use crate::drops::Drop;
use quorate_types::{Block, Digest, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Number of view timeouts that may pass from a proposal to a vote for it: an optimistic proposal is made up to one
/// view before its own, travels at most one timeout, or else its view fails anyway, and may wait for its bundles for
/// the rest of the view. The timeouts grow as long as views fail, so no delay makes replicas refuse blocks forever.
pub const MAX_AGE_VIEWS: u32 = 3;
/// Maximum number of judged blocks whose commits are awaited.
const MAX_JUDGED: usize = 256;

/// Wall clock of a replica.
#[derive(Debug)]
pub struct Clock {
    origin_ms: u64,
    max_skew: Duration,
    /// The last blocks judged and not committed: by how many milliseconds each was ahead of the clock if it was
    /// refused.
    judged: VecDeque<(Digest, Option<i64>)>,
    disagreement_ms: Option<i64>,
}

impl Clock {
    /// Creates a clock that shows the time since the host's start, until it is set.
    pub fn new(config: &Config) -> Clock {
        Clock { origin_ms: 0, max_skew: config.max_clock_skew(), judged: VecDeque::new(), disagreement_ms: None }
    }

    /// Sets the clock: `origin_ms` is its time at [`Time`] 0, in milliseconds since the Unix epoch.
    pub fn set(&mut self, origin_ms: u64) {
        self.origin_ms = origin_ms;
    }

    /// Returns the wall clock in milliseconds since the Unix epoch.
    pub fn unix_ms(&self, now: Time) -> u64 {
        self.origin_ms.saturating_add(now.0 / 1_000_000)
    }

    /// Judges the time of a proposal, given the timeout of the current view.
    ///
    /// # Errors
    /// If the block's time is too far ahead of this clock or behind it.
    pub fn judge(&mut self, now: Time, block: &Block, view_timeout: Duration) -> Result<(), Drop> {
        let clock_ms = self.unix_ms(now);
        let max_behind = self.max_skew + view_timeout * MAX_AGE_VIEWS;
        let why = if block.time_ms > clock_ms.saturating_add(millis(self.max_skew)) {
            Some(Drop::TimeAhead)
        } else if block.time_ms < clock_ms.saturating_sub(millis(max_behind)) {
            Some(Drop::TimeBehind)
        } else {
            None
        };
        if self.judged.len() == MAX_JUDGED {
            self.judged.pop_front();
        }
        self.judged.push_back((block.digest(), why.map(|_| difference(block.time_ms, clock_ms))));
        why.map_or(Ok(()), Err)
    }

    /// Notes that a block was committed, and compares that with this replica's judgement.
    pub fn on_commit(&mut self, digest: &Digest) {
        // A block that came twice was judged twice.
        if let Some(at) = self.judged.iter().rposition(|(judged, _)| judged == digest) {
            self.disagreement_ms = self.judged.drain(..=at).next_back().and_then(|(_, ahead_ms)| ahead_ms);
        }
    }

    /// Returns by how many milliseconds the last committed block that this replica judged was ahead of its clock, if it
    /// refused the block; negative if the block was behind. The clock then differs from a quorum's.
    pub fn disagreement_ms(&self) -> Option<i64> {
        self.disagreement_ms
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn difference(one_ms: u64, other_ms: u64) -> i64 {
    let difference = i128::from(one_ms) - i128::from(other_ms);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}
