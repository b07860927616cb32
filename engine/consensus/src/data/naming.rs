//! Limit on the bundles that a block names after views have timed out.
//!
//! A leader that sizes its blocks itself names every pending bundle. While a view times out many more arrive, so the
//! next proposal is the longest one. Over a transport without retransmission, the probability that a proposal arrives
//! completely falls with each of its packets, so the next view would time out as well, and every later one. So each
//! timed-out view shortens the next proposal, and certificates of blocks that use the limit raise it again: they double
//! it up to half of the failed length, and from there on it grows slowly. There is no limit until the first view times
//! out.

use crate::config::{Config, Dissemination};
use quorate_types::limits::MAX_BLOCK_BUNDLES;

/// Number of bundles named in half of a 1,200-byte packet. The other half is for certificates. Shorter blocks would not
/// be lost less often.
pub const PACKET_BUNDLES: usize = 16;
/// The same number if each bundle may rely on a separate storage certificate, whose name takes two bytes more than the
/// bundle's.
pub const PACKET_COVERED_BUNDLES: usize = 8;
/// Maximum cut of the limit, as a power of two. The first view that times out halves the limit, and each further one in
/// a row cuts it twice as deep: with a large backlog, halving alone would take too many view timeouts.
const MAX_CUT_SHIFT: u32 = 6;
/// Beyond half of the failed length, each certificate raises the limit by 1/N, or by one packet.
const SLOW_GROWTH_DIVISOR: usize = 16;

/// Limit on the bundles that a block names.
pub struct Naming {
    limit: usize,
    /// Half of the length at which views began to time out.
    known_good: usize,
    /// Minimum of the limit.
    least: usize,
    failures_in_a_row: u32,
}

impl Naming {
    /// Creates a limit that has no effect yet. Proposals that contain their bundles may shrink to a single one.
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

    /// Records that a view timed out while `open` received bundles were not executed: its block named at most that
    /// many, and so would the next one.
    pub fn on_timeout(&mut self, open: usize) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1).min(MAX_CUT_SHIFT);
        let most = self.limit.min(open);
        // A block this short did not fail because of its length.
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
        assert!(bounds.contains(&self.limit), "a block may name at least as many bundles as fit in one packet");
        assert!(bounds.contains(&self.known_good), "the limit grows quickly up to a length that a block may have");
    }
}
