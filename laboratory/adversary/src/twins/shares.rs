//! Checks that honest clients get their share of the blocks beside a hostile client: of any sequence of blocks of
//! honest leaders, however short or long. It counts bundles in committed blocks and knows no queues of replicas.
//!
//! All honest bundles arrive over one link, those of the hostile client over another link of the same address, and
//! those that peers relay count as a third (`docs/adr/096-a-leader-divides-its-own-blocks.md`). So a third of each
//! block is due to the honest clients, or less if fewer of their bundles wait.

use crate::oracles::Share;
use crate::twins::hostile::BATCH;
use quorate_types::View;

/// Number of links that share each block in a world with a hostile client.
const LINKS: u64 = 3;
/// Maximum number of bundles by which the honest clients may fall behind their share: the size of a block.
const MAX_BEHIND_BUNDLES: u64 = BATCH as u64;

/// Counts of honest bundles.
pub(crate) struct Shares {
    /// Number of honest bundles submitted before each view that was run, by view.
    before: Vec<u64>,
    /// Number of honest bundles in committed blocks.
    served: u64,
    /// In bundles.
    share: Share,
    /// Last view before the check; `None` as long as it is not on.
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

    /// Notes that a view begins, before which this many honest bundles were submitted.
    pub fn opens(&mut self, view: View, submitted: u64) {
        self.before.resize(view.0 as usize + 1, submitted);
    }

    /// Checks the blocks of the views after `last`, in which honest replicas lead.
    pub fn check_after(&mut self, last: View) {
        self.after = Some(last);
    }

    /// Returns the number of blocks in which the submitted bundles that no committed block names are due.
    pub fn blocks_for_waiting(&self, submitted: u64) -> u64 {
        self.share.blocks_for(submitted.saturating_sub(self.served), u64::from(BATCH))
    }

    /// Observes the next block of the chain, with the number of honest bundles that it names for the first time.
    ///
    /// # Errors
    /// By how many bundles the honest clients are behind their share, if that is too many.
    pub fn commits(&mut self, view: View, honest: u64) -> Result<(), u64> {
        // A leader may propose when the view before its own begins; it has the bundles that were submitted earlier.
        let known = view.0.checked_sub(1).and_then(|view| self.before.get(view as usize)).copied().unwrap_or(0);
        let waiting = known.saturating_sub(self.served);
        self.served += honest;
        if self.after.is_none_or(|after| view <= after) {
            return Ok(());
        }
        self.share.commits(u64::from(BATCH), waiting, honest)
    }
}
