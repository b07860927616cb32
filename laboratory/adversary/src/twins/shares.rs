//! Checks that honest clients get their share of the blocks next to a hostile client, over any sequence of honest
//! leaders' blocks of any length. It counts bundles in committed blocks and knows no queues of replicas.
//!
//! All honest bundles arrive over one link, the hostile client's over another link from the same address, and relayed
//! ones count as a third link (`docs/adr/096-a-leader-divides-its-own-blocks.md`). So the honest clients are entitled
//! to a third of each block, or less if fewer of their bundles wait.

use crate::oracles::Share;
use crate::twins::hostile::BATCH;
use quorate_types::View;

/// Number of links that share each block in a world with a hostile client.
const LINKS: u64 = 3;
/// Maximum deficit of the honest clients relative to their share, in bundles: the size of a block.
const MAX_BEHIND_BUNDLES: u64 = BATCH as u64;

/// Counts of honest bundles.
pub(crate) struct Shares {
    /// Number of honest bundles submitted before each completed view, by view.
    before: Vec<u64>,
    /// Number of honest bundles in committed blocks.
    served: u64,
    /// Share, measured in bundles.
    share: Share,
    /// Last view before the check; `None` until the check starts.
    after: Option<View>,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares { before: Vec::new(), served: 0, share: Share::new(LINKS, MAX_BEHIND_BUNDLES), after: None }
    }
}

impl Shares {
    pub fn clear(&mut self) {
        self.before.clear();
        self.share.clear();
        (self.served, self.after) = (0, None);
    }

    /// Records the start of a view, before which this many honest bundles were submitted.
    pub fn opens(&mut self, view: View, submitted: u64) {
        self.before.resize(view.0 as usize + 1, submitted);
    }

    /// Checks the blocks of the views after `last`, in which honest replicas lead.
    pub fn check_after(&mut self, last: View) {
        self.after = Some(last);
    }

    /// Returns the number of blocks within which the submitted bundles that no committed block names must be served.
    pub fn blocks_for_waiting(&self, submitted: u64) -> u64 {
        self.share.blocks_for(submitted.saturating_sub(self.served), u64::from(BATCH))
    }

    /// Observes the next block of the chain, with the number of honest bundles that it names for the first time.
    ///
    /// # Errors
    /// The honest clients' deficit in bundles, if it is too large.
    pub fn commits(&mut self, view: View, honest: u64) -> Result<(), u64> {
        // A leader may propose as early as the start of the previous view; it has the bundles submitted before that.
        let known = view.0.checked_sub(1).and_then(|view| self.before.get(view as usize)).copied().unwrap_or(0);
        let waiting = known.saturating_sub(self.served);
        self.served += honest;
        if self.after.is_none_or(|after| view <= after) {
            return Ok(());
        }
        self.share.commits(u64::from(BATCH), waiting, honest)
    }
}
