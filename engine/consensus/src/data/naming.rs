//! How many bundles a block names after views have timed out.
//!
//! A leader that sizes its blocks itself names every bundle that waits. While a view times out many more arrive, so the
//! next proposal is the longest one. Over a transport that repairs no loss, the chance that a proposal arrives whole
//! shrinks with each of its packets, so the next view would time out as well, and every later one. So each timed-out
//! view shortens the next proposal, and certificates of blocks that use the limit raise it again: they double it up to
//! half of what failed, and from there on it grows slowly. Until the first view times out there is no limit.

use crate::config::{Config, Dissemination};
use quorate_types::limits::MAX_BLOCK_BUNDLES;

/// Number of bundles that a proposal names in half of a packet of 1,200 bytes. The rest is for certificates. Shorter
/// blocks would not be lost less often.
pub const PACKET_BUNDLES: usize = 16;
/// The same number if each bundle may rely on a certificate of storage of its own, whose name takes as much as the
/// bundle's and two bytes more.
pub const PACKET_COVERED_BUNDLES: usize = 8;
/// The first view that times out halves the limit. Each further one in a row cuts it twice as deep, up to 2^N: where
/// much waits, halves alone would take too many view timeouts.
const MAX_CUT_SHIFT: u32 = 6;
/// Beyond half of what failed, the limit grows by 1/N of itself for each certificate, or by one packet.
const SLOW_GROWTH_DIVISOR: usize = 16;

/// Limit on the bundles that a block names.
pub struct Naming {
    limit: usize,
    /// Half of the length at which views began to time out.
    known_good: usize,
    /// The limit never falls below this.
    least: usize,
    failures_in_a_row: u32,
}

impl Naming {
    /// Creates a limit that has no effect yet. Proposals that carry their bundles may shrink to a single one.
    pub fn new(config: &Config) -> Naming {
        let least = match config.dissemination {
            Dissemination::Leader => 1,
            Dissemination::Client | Dissemination::Replicas => PACKET_BUNDLES,
            Dissemination::ReplicasCertified => PACKET_COVERED_BUNDLES,
        };
        Naming { limit: MAX_BLOCK_BUNDLES, known_good: MAX_BLOCK_BUNDLES, least, failures_in_a_row: 0 }
    }

    /// Returns the maximum number of bundles in the next block.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Records a certificate of a block that names this many bundles. Only a block that used at least half of the limit
    /// shows that longer ones may arrive.
    pub fn on_certificate(&mut self, named: usize) {
        self.failures_in_a_row = 0;
        if named >= self.limit.div_ceil(2) {
            let grown = match self.limit < self.known_good {
                true => (self.limit * 2).min(self.known_good),
                false => self.limit + self.least.max(self.limit / SLOW_GROWTH_DIVISOR),
            };
            self.limit = grown.min(MAX_BLOCK_BUNDLES);
        }
    }

    /// Records that a view timed out while `open` bundles were here and not executed: at most that many did its block
    /// name, and would the next one.
    pub fn on_timeout(&mut self, open: usize) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1).min(MAX_CUT_SHIFT);
        let most = self.limit.min(open);
        // A block this short did not fail for its length.
        if most > self.least {
            self.limit = (most >> self.failures_in_a_row).max(self.least);
            if self.failures_in_a_row == 1 {
                self.known_good = self.limit;
            }
        }
    }

    /// Checks the invariants after a step.
    pub fn invariants(&self) {
        let bounds = self.least..=MAX_BLOCK_BUNDLES;
        assert!(bounds.contains(&self.limit), "a block names what one packet holds, or more");
        assert!(bounds.contains(&self.known_good), "the limit grows quickly up to a length that a block may have");
    }
}
